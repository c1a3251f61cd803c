# Waits for the end of the test process (its end of this pipe closes, however it dies), then ends the server it left behind.
# $1  the server's folder, with a file `pid` while it runs
trap '' HUP INT TERM
cat >/dev/null
[ -f "$1/pid" ] && kill -9 "$(cat "$1/pid")" 2>/dev/null
rm -rf "$1"
