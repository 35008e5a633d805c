-- As post.lua, but each request goes to the next of the 100 models simple_000 to simple_099.
dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "post.lua")

local prepare = init
local requests, turn = {}, 0

function init(args)
  prepare(args)
  for number = 0, 99 do
    requests[number + 1] = wrk.format(nil, string.format("/v2/models/simple_%03d/infer", number))
  end
end

function request()
  turn = turn % #requests + 1
  return requests[turn]
end
