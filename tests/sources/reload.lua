-- A little of everything that Lua keeps memory for: closures, strings, tables, errors, coroutines, finalizers.
local words = {}
for word in ("pack my box with five dozen liquor jugs"):gmatch("%a+") do words[#words + 1] = word:upper() end
table.sort(words)
print(table.concat(words, " "), #arg, arg[1])
print(pcall(function() error({ code = 7 }) end) and "?" or "caught a table")
print(pcall(error, "plain", 0))
local squares = coroutine.wrap(function() for i = 1, 5 do coroutine.yield(i * i) end end)
print(squares(), squares(), squares())
local collected = 0
for _ = 1, 100 do setmetatable({}, { __gc = function() collected = collected + 1 end }) end
collectgarbage()
print(collected, load("return ... * 2")(21), string.format("%5.2f", 2 ^ 0.5))
return 9
