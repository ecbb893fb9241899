#!/bin/sh
# Look after what nginx pods have left on this node: sweep.sh FOLDER, with a folder for each pod in it.
#
# A pod that was killed leaves lines that nobody hands over: they are, an hour after the last one. A running nginx cannot
# be meant, since its sidecar hands over every minute. Files that were handed over go after a day.
set -eu

folder=$1
find "$folder" -mindepth 2 -maxdepth 2 -type f \( -name capture.log -o -name 'rotating-*' \) -size +0 -mmin +60 |
  while read -r left; do
    mv "$left" "${left%/*}/capture-left-$(basename "$left")-$(date -u +%Y%m%dT%H%M%SZ).log"
  done
find "$folder" -mindepth 2 -maxdepth 2 -type f -name 'capture-*.log' -mmin +1440 -exec rm -f {} +
