# Waits for the end of the test process (its end of this pipe closes, however it dies), then ends what it left behind.
# $1  the server's folder, with a .pid file for each process that runs
trap '' HUP INT TERM
cat >/dev/null
for file in "$1"/*.pid; do
  [ -f "$file" ] && kill -9 "$(cat "$file")" 2>/dev/null
done
rm -rf "$1"
