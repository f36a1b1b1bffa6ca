"""A way to a server's Unix socket on which one message, or the answer to it, is lost with its connection."""

import os
import socket
import threading

READY = b"Z\x00\x00\x00\x05"  # ReadyForQuery: the answer is whole


class LossyProxy:
    """Listens in `directory`; ends the first connection that sends `text`, before or after the server has answered."""

    def __init__(self, directory, server_directory, text, after):
        self.target = os.path.join(server_directory, ".s.PGSQL.5432")
        self.text, self.after = text, after
        self.losses = 0
        self.on_loss = lambda: None  # what else happens before the connection ends
        self.lock = threading.Lock()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(os.path.join(directory, ".s.PGSQL.5432"))
        self.listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _lose_now(self, message):
        with self.lock:
            if self.losses or self.text not in message:
                return False
            self.losses += 1
            return True

    def _serve(self, client):
        server = socket.socket(socket.AF_UNIX)
        with client, server:
            server.connect(self.target)
            losing = threading.Event()
            back = threading.Thread(target=self._answers, args=[server, client, losing], daemon=True)
            back.start()
            while True:
                message = client.recv(65536)
                if not message:
                    break
                if self._lose_now(message):
                    self.on_loss()
                    if self.after:
                        losing.set()
                        server.sendall(message)
                        back.join()  # until the swallowed answer is whole
                    break
                server.sendall(message)
            for end in (client, server):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
            back.join()

    @staticmethod
    def _answers(server, client, losing):
        swallowed = b""
        while True:
            try:
                answer = server.recv(65536)
            except OSError:
                return
            if not answer:
                try:
                    client.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
                return
            if losing.is_set():
                swallowed += answer
                if READY in swallowed:
                    return
                continue
            try:
                client.sendall(answer)
            except OSError:
                return
