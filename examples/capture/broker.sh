#!/bin/sh
# One Kafka broker on this machine, to try capture with: `make services` gets the program (Java 17 is needed).
#
#     examples/capture/broker.sh FOLDER [PORT]      127.0.0.1:9092 unless PORT is given; Ctrl-C ends it
#
# Its data stays in FOLDER. Not for production: one copy of everything, and topics are made when they are named.
set -eu

folder=$1
port=${2:-9092}
jars=$(cd "$(dirname "$0")/../.." && pwd)/.services/kafka
[ -d "$jars" ] || { echo "broker.sh: $jars is not there: run make services" >&2; exit 2; }
mkdir -p "$folder"

cat >"$folder/server.properties" <<EOP
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$((port + 1))
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.quorum.bootstrap.servers=127.0.0.1:$((port + 1))
log.dirs=$folder/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
EOP
kafka() {
  main=$1
  shift
  exec java -Xmx512m -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$jars/*" "$main" "$@"
}
if [ ! -e "$folder/data/meta.properties" ]; then
  (kafka kafka.tools.StorageTool format -t "capture-try-out-000001" --standalone -c "$folder/server.properties")
fi
echo "Kafka on 127.0.0.1:$port, data in $folder"
kafka kafka.Kafka "$folder/server.properties"
