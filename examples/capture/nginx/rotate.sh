#!/bin/sh
# Rotate the capture log without losing a line: rename, have nginx open it again, remove what is old.
#
#     rotate.sh LOG PID_FILE [KEEP_MINUTES]      every quarter of an hour, say, by cron, a timer or a sidecar
#
# nginx writes on into the renamed file until it has opened the new one, so nothing is lost and nothing stands twice.
# Copying and truncating does both. The shipper reads the renamed file to its end; KEEP_MINUTES (a day) is how long it
# may be away. Fails when a worker still writes to the old file after 10 s, and says why.
set -eu

log=$1
pid_file=$2
keep_minutes=${3:-1440}

find "$(dirname "$log")" -name "$(basename "$log").*" -type f -mmin "+$keep_minutes" -exec rm -f {} +
[ -s "$log" ] || exit 0 # nothing was written

master=$(cat "$pid_file")
old=$log.$(date -u +%Y%m%dT%H%M%SZ).$$
inode=$(ls -iL "$log" | { read -r number _ && echo "$number"; })
mv "$log" "$old"
kill -USR1 "$master"

# The processes of nginx, its master or a worker, that have the file with this inode open.
holders() {
  for pid in $master $(cat "/proc/$master/task/$master/children" 2>/dev/null); do
    # shellcheck disable=SC2012  # find follows no links of /proc
    ls -iL "/proc/$pid/fd" 2>/dev/null | awk -v pid="$pid" -v inode="$inode" '$1 == inode { print pid; exit }'
  done
}
tries=0
while [ ! -e "$log" ] || [ -n "$(holders)" ]; do
  tries=$((tries + 1))
  if [ "$tries" -gt 50 ]; then
    echo "rotate.sh: nginx $(holders | tr "\n" " ")still writes to $old: may its user enter $(dirname "$log") and write there?" >&2
    exit 1
  fi
  sleep 0.2
done
