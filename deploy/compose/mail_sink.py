"""A mail server that takes everything, keeps each mail as a file, and delivers nothing: for trying Curfew out, and for tests that count.

Beside the mails it keeps `accepted`, one JSON line for each that was accepted, written before the 250 is: when, the queue id, and the job that
the mail says it is of (X-Curfew-Job). A job that stands there twice was sent twice. No address is in that file.

Speaks PIPELINING, SIZE, 8BITMIME and SMTPUTF8. Not promised: to keep a mail when the machine loses its power.
"""

import argparse
import asyncio
import json
import os
import signal
import time

SIZE_MAX = 50 * 1024 * 1024
LINE_MAX = 64 * 1024
IDLE_S_MAX = 300
EHLO = b"250-mail-sink\r\n250-PIPELINING\r\n250-SIZE %d\r\n250-8BITMIME\r\n250-ENHANCEDSTATUSCODES\r\n250 SMTPUTF8\r\n" % SIZE_MAX


class Spool:
    """The folder that mails lie in."""

    def __init__(self, folder):
        os.makedirs(folder, exist_ok=True)
        self.folder = folder
        self.accepted = open(os.path.join(folder, "accepted"), "a", buffering=1, encoding="utf-8")
        self.count = 0

    def keep(self, sender, recipients, content):
        """Keeps a mail, and says under which queue id."""
        self.count += 1
        queue_id = f"{time.time_ns():x}-{self.count}"
        path = os.path.join(self.folder, queue_id + ".eml")
        with open(path + ".part", "wb") as file:
            file.write(b"X-Sink-From: " + sender + b"\r\n" + b"".join(b"X-Sink-To: " + r + b"\r\n" for r in recipients) + content)
        os.rename(path + ".part", path)
        self.accepted.write(json.dumps({"at": time.time(), "queue_id": queue_id, "job": job_of(content)}) + "\n")
        return queue_id


def job_of(content):
    """The job a mail says it is of, or None."""
    head = content.partition(b"\r\n\r\n")[0]
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"x-curfew-job":
            return value.strip().decode("ascii", "replace")
    return None


async def content_of(reader):
    """What stands before the end marker, or None where it is too large."""
    lines, size = [], 0
    while (line := await reader.readuntil(b"\r\n")) != b".\r\n":
        size += len(line)
        if size <= SIZE_MAX:
            lines.append(line[1:] if line.startswith(b".") else line)
    return b"".join(lines) if size <= SIZE_MAX else None


async def session(spool, reader, writer):
    """One connection, until QUIT or its end."""
    sender, recipients = None, []
    writer.write(b"220 mail-sink ESMTP\r\n")
    while True:
        await writer.drain()
        line = (await asyncio.wait_for(reader.readuntil(b"\r\n"), IDLE_S_MAX)).strip()
        verb = line[:4].upper()
        if verb in (b"EHLO", b"HELO"):
            sender, recipients = None, []
            writer.write(EHLO if verb == b"EHLO" else b"250 mail-sink\r\n")
        elif verb == b"MAIL":
            sender, recipients = line[10:].split(b" ")[0], []
            writer.write(b"250 2.1.0 Ok\r\n")
        elif verb == b"RCPT" and sender is not None:
            recipients.append(line[8:].split(b" ")[0])
            writer.write(b"250 2.1.5 Ok\r\n")
        elif verb == b"DATA" and recipients:
            writer.write(b"354 End data with <CR><LF>.<CR><LF>\r\n")
            await writer.drain()
            content = await asyncio.wait_for(content_of(reader), IDLE_S_MAX)
            if content is None:
                writer.write(b"552 5.3.4 Too large\r\n")
            else:
                writer.write(b"250 2.0.0 Ok: queued as " + spool.keep(sender, recipients, content).encode() + b"\r\n")
            sender, recipients = None, []
        elif verb == b"RSET":
            sender, recipients = None, []
            writer.write(b"250 2.0.0 Ok\r\n")
        elif verb == b"NOOP":
            writer.write(b"250 2.0.0 Ok\r\n")
        elif verb == b"QUIT":
            writer.write(b"221 2.0.0 Bye\r\n")
            await writer.drain()
            return
        elif verb in (b"RCPT", b"DATA"):
            writer.write(b"503 5.5.1 Not yet\r\n")
        else:
            writer.write(b"502 5.5.2 Not known here\r\n")


async def main():
    """Listens until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--listen", default="127.0.0.1:1025", metavar="HOST:PORT")
    parser.add_argument("--folder", required=True)
    args = parser.parse_args()
    spool = Spool(args.folder)

    async def connected(reader, writer):
        try:
            await session(spool, reader, writer)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.TimeoutError, ConnectionError):
            pass  # whoever hangs up in the middle has handed nothing over
        finally:
            writer.close()

    host, _, port = args.listen.rpartition(":")
    server = await asyncio.start_server(connected, host, int(port), limit=LINE_MAX)
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    print(f"mail sink at {args.listen}, mails in {args.folder}", flush=True)
    await stop.wait()
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
