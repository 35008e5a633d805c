-- Posts one prepared body again and again, and prints what wrk measured as one JSON line.
-- Arguments (after --): the file with the body, then name=value for each header.
function init(args)
  local file = assert(io.open(args[1], "rb"))
  wrk.body = file:read("*a")
  file:close()
  wrk.method = "POST"
  for index = 2, #args do
    local name, value = args[index]:match("^([^=]+)=(.*)$")
    wrk.headers[name] = value
  end
end

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    '{"requests":%d,"duration_us":%d,"p50_us":%d,"p99_us":%d,"bad_status":%d,"socket_errors":%d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), errors.status,
    errors.connect + errors.read + errors.write + errors.timeout))
end
