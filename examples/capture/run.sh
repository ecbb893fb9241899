#!/bin/sh
# Try capture on this machine, without Docker and without root: nginx with a stand-in for the service, its log handed over
# every few seconds, and rsyslog that ships it where a broker is named.
#
#     examples/capture/run.sh FOLDER [BROKERS]      Ctrl-C ends all of it
#
# Then, from another terminal:
#
#     curl -H 'Authorization: Bearer 8d0f9c1e-3a77-4d4e-9a55-0a2b6a1c0001' http://127.0.0.1:8080/products/1
#
# Settings: PORT (8080), SERVICE_PORT (9000), SAMPLING (user, or request), PERCENT (100), TOPIC (shop-access-log),
# HAND_OVER_S (5).
set -eu

[ $# -ge 1 ] || { sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
brokers=${2:-}
sampling=${SAMPLING:-user}
percent=${PERCENT:-100}
PATH=$PATH:/usr/sbin

mkdir -p "$folder/conf" "$folder/logs" "$folder/tmp" "$folder/captured" "$folder/shipper"
share=$(awk -v percent="$percent" 'BEGIN { printf "%.4f", percent / 100 }')
for file in "$here"/nginx/*.conf; do
  sed -e "s|127.0.0.1:8080|127.0.0.1:${PORT:-8080}|; s|127.0.0.1:9000|127.0.0.1:${SERVICE_PORT:-9000}|" \
    -e "s|/var/log/nginx-capture|$folder/captured|; s|^  1% 0.01;|  $percent% $share;|" \
    -e "s|^  include sampling-by-.*|  include sampling-by-$sampling.conf;|" \
    "$file" >"$folder/conf/$(basename "$file")"
done

nginx=
shipper=
hand_over() { sh "$here/nginx/rotate.sh" "$folder/captured/capture.log" "$folder/nginx.pid" || true; }
stop() {
  trap - INT TERM EXIT
  [ -z "$nginx" ] || { kill "$nginx" 2>/dev/null && wait "$nginx"; } || true
  hand_over
  if [ -n "$shipper" ]; then
    sleep 2 # it reads what came last
    kill "$shipper" 2>/dev/null && wait "$shipper" || true
  fi
}
trap 'stop; exit 0' INT TERM
trap stop EXIT

# As root nginx would give its workers another user, who may not enter the folder.
user=
[ "$(id -u)" != 0 ] || user='user root;'
nginx -p "$folder/" -e logs/error.log -c "$folder/conf/nginx.conf" -g "$user" &
nginx=$!
if [ -n "$brokers" ]; then
  CAPTURE_FILES="$folder/captured/capture-*.log" CAPTURE_STATE="$folder/shipper" CAPTURE_BROKERS="$brokers" \
    CAPTURE_TOPIC="${TOPIC:-shop-access-log}" \
    rsyslogd -n -f "$here/shippers/rsyslog.conf" -i "$folder/shipper/rsyslog.pid" &
  shipper=$!
fi
echo "nginx on http://127.0.0.1:${PORT:-8080}, $percent % sampled by $sampling, captured lines in $folder/captured"

while kill -0 "$nginx" 2>/dev/null; do
  sleep "${HAND_OVER_S:-5}" &
  wait $! || true
  hand_over
done
echo "run.sh: nginx has ended: $(tail -1 "$folder/logs/error.log" 2>/dev/null)" >&2
exit 1
