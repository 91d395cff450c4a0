-- Closures, strings, errors, coroutines, tables, metatables, the collector: printed, so that it can be compared.
local function counter(start)
  local n = start
  return function(by) n = n + (by or 1); return n end
end
local a, b = counter(1), counter(10)
print("closures", a(), a(5), b(), a())

print("gsub", (("the quick brown fox"):gsub("%w+", function(w) return w:sub(1, 1):upper() .. w:sub(2) end)))
print("gsub table", (("$x is $y"):gsub("%$(%w+)", { x = "one", y = "two" })))
print("find", ("key = value"):find("^(%w+)%s*=%s*(%w+)$"))
print("format", string.format("%5.2f|%-6s|%06d|%x|%q", 3.14159, "ab", 42, 255, "a\nb"))
for k, v in ("a=1, b=22, c=333"):gmatch("(%w+)=(%w+)") do io.write(k, ":", v, ";") end
print(); print("pack", string.pack("<i4d", 7, 1.5):byte(1, -1))

print("pcall", pcall(function() error({ code = 7 }) end) and "?" or "caught a table")
print("pcall text", pcall(error, "plain", 0))
print("pcall nil", select(2, pcall(function() local t = nil; return t.x end)))
print("xpcall", xpcall(function() error("deep", 0) end, function(m) return "handled " .. m end))
local function endless() return 1 + endless() end
print("overflow", (select(2, pcall(endless)):match("stack overflow")))

local function produce(n)
  return coroutine.wrap(function() for i = 1, n do coroutine.yield(i * i) end return "done" end)
end
local nexts = produce(4)
print("coroutine", nexts(), nexts(), nexts(), nexts(), nexts())
local broken = coroutine.create(function() coroutine.yield(1); error("inside") end)
print(coroutine.resume(broken)); print(coroutine.resume(broken)); print(coroutine.status(broken))

local words = {}
for w in ("pack my box with five dozen liquor jugs"):gmatch("%a+") do words[#words + 1] = w end
table.sort(words, function(x, y) if #x ~= #y then return #x < #y end return x < y end)
print("sort", table.concat(words, " "))
print("sort error", pcall(table.sort, { 3, "x", 1 }))

local V = {}
V.__index = V
V.__add = function(x, y) return setmetatable({ x[1] + y[1], x[2] + y[2] }, V) end
V.__eq = function(x, y) return x[1] == y[1] and x[2] == y[2] end
V.__tostring = function(x) return "(" .. x[1] .. ", " .. x[2] .. ")" end
V.__close = function(x) print("closed", x) end
local v = setmetatable({ 1, 2 }, V) + setmetatable({ 10, 20 }, V)
print("meta", tostring(v), v == setmetatable({ 11, 22 }, V))
do local scoped <close> = v end

local sum = 0
for i = 1, 200000 do sum = sum + (i % 7) * (i // 3) ~ (i << 2) end
print("loop", sum, 7 // 2, -7 // 2, 7 % -3, 2 ^ 10, 1e15, math.maxinteger + 1 == math.mininteger)
local collected = 0
for _ = 1, 100 do setmetatable({}, { __gc = function() collected = collected + 1 end }) end
collectgarbage()
print("collected", collected)
print("load", load("return ... * 2")(21))
goto finish
print("never")
::finish::
print("arguments", #arg, table.concat(arg, ","))
print("time", os.time({ year = 2000, month = 1, day = 1, hour = 12 }) > 0, type(os.clock()), os.getenv("CORPUS_WORD"))
return 9
