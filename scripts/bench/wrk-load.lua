-- wrk … -s wrk-load.lua <origin> -- <header> <clients> <path>…
-- Asks in the name of clients in turn, each of whom asks for all paths in turn, and ends with one line of JSON. A path
-- that ends with * is asked for with an increasing number in its place.

local requests = {}
local endings = {}
local sent = 0

function init(args)
  local header, clients = args[1], tonumber(args[2])
  local paths = #args - 2
  for index = 0, clients * paths - 1 do
    local client, turn = index % clients, math.floor(index / clients)
    local path = args[3 + (client + turn) % paths]
    local text = wrk.format('GET', path, { [header] = 'client-' .. client })
    local place = string.find(text, '* HTTP', 1, true)
    requests[index + 1] = place and string.sub(text, 1, place - 1) or text
    endings[index + 1] = place and string.sub(text, place + 1) or false
  end
end

function request()
  sent = sent + 1
  local index = (sent - 1) % #requests + 1
  local ending = endings[index]
  return ending and requests[index] .. sent .. ending or requests[index]
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '\nbench {"requests":%d,"microseconds":%d,"p50":%.3f,"p99":%.3f,"status":%d,"connect":%d,"read":%d,"write":%d,"timeout":%d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.status, errors.connect, errors.read, errors.write, errors.timeout
  ))
end
