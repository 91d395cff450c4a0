{ Free Pascal without the C library: its own start, strings, arrays, exceptions, an exit status. }
program p;
uses sysutils;
var i: integer; s: ansistring; a: array of integer;
begin
  setlength(a, 10);
  for i := 0 to 9 do a[i] := i * i;
  s := '';
  for i := 0 to 9 do s := s + inttostr(a[i]) + ' ';
  writeln(s, paramcount, ' ', paramstr(1));
  try
    raise exception.create('on purpose');
  except on e: exception do writeln('caught ', e.message); end;
  writeln(format('%.3f', [sqrt(2.0)]));
  halt(7);
end.
