#!/bin/sh
# Hand what nginx has logged to the shipper, without losing a line: capture.log becomes capture-<time>.log.
#
#     rotate.sh LOG PID_FILE [KEEP_MINUTES]      every minute, by cron, a timer or a sidecar; one at a time
#
# The log is renamed, nginx opens it again (USR1) and flushes its buffers into the renamed file, and only when no process
# of nginx has that open any more does it get the name that shippers look for. So a shipper sees whole files that never
# change: several of them lose the last lines of a file that is renamed while it is written, or read it twice. Copying and
# truncating does both. KEEP_MINUTES (a day) is how long the shipper may be away before its files are removed.
#
# An attempt that was killed anywhere is finished by the next one. Fails when a process of nginx still writes to the old
# file after 10 s, and says why.
set -eu

log=$1
pid_file=$2
keep_minutes=${3:-1440}
folder=$(dirname "$log")
now=$(date -u +%Y%m%dT%H%M%SZ).$$

if [ -s "$log" ]; then
  mv "$log" "$folder/rotating-$now"
fi

master=$(cat "$pid_file" 2>/dev/null || true)
if [ -n "$master" ] && [ -n "$(find "$folder" -name 'rotating-*')" ]; then
  kill -USR1 "$master" 2>/dev/null || master= # it has ended, and its pid file was left
fi

# The processes of nginx, its master or a worker, that have a file open, or that this user may not look into.
holders() {
  inode=$(ls -iL "$1" | awk '{ print $1 }')
  for pid in $master $(cat "/proc/$master/task/$master/children" 2>/dev/null); do
    # shellcheck disable=SC2012 # find follows no links of /proc
    open=$(ls -iL "/proc/$pid/fd" 2>/dev/null | awk '{ print $1 }')
    case "
$open
" in *"
$inode
"*) echo "$pid" ;; "

") [ ! -d "/proc/$pid" ] || echo "$pid" ;; esac
  done
}
[ -d /proc/self ] || sleep 2 # without /proc nobody can tell: nginx opens its logs within milliseconds
for file in "$folder"/rotating-*; do
  [ -e "$file" ] || continue
  tries=0
  while [ -n "$master" ] && [ -n "$(holders "$file")" ]; do
    tries=$((tries + 1))
    if [ "$tries" -gt 50 ]; then
      echo "rotate.sh: nginx $(holders "$file" | tr '\n' ' ')still writes to $file:" \
        "may its user enter $folder and write there, and is rotate.sh run by nginx's user or by root?" >&2
      exit 1
    fi
    sleep 0.2
  done
  mv "$file" "$folder/capture-${file##*/rotating-}.log"
done

find "$folder" -name 'capture-*.log' -type f -mmin "+$keep_minutes" -exec rm -f {} +
