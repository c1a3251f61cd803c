# Waits for the end of its input, which the test's process holds; then stops the server whose folder is $1, and removes the folder.
trap '' INT TERM HUP
cat >/dev/null
if [ -f "$1/data/postmaster.pid" ]; then
  pid=$(head -n 1 "$1/data/postmaster.pid")
  # The file of a killed server stays; its number may be another process's by now.
  ours() { [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = postgres ]; }
  ours && kill -QUIT "$pid"
  tries=0
  while ours && [ "$tries" -lt 100 ]; do
    tries=$((tries + 1))
    sleep 0.1
  done
fi
rm -rf "$1"
