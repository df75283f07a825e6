"""TLS in front of a Spark Connect server: the configuration of an nginx that does it.

Spark 4.2's Connect server speaks plain HTTP/2 only (`spark.ssl.*` does not reach it), and its clients send a token to
another host encrypted or not at all. So a server that others are to reach needs a proxy in front.
"""

from __future__ import annotations

_CONFIGURATION = """\
# The only way to Spark Connect from outside of Spark's network: TLS here, plain HTTP/2 behind.
pid {run}/nginx.pid;
worker_processes 1;

events {{
    worker_connections 1024;
}}

http {{
    access_log off;
    client_body_temp_path {run}/nginx-bodies;
    proxy_temp_path {run}/nginx-proxy;
    fastcgi_temp_path {run}/nginx-fastcgi;
    uwsgi_temp_path {run}/nginx-uwsgi;
    scgi_temp_path {run}/nginx-scgi;

    server {{
        listen {bind}:{port} ssl http2;
        ssl_certificate {secrets}/connect.crt;
        ssl_certificate_key {secrets}/connect.key;
        ssl_protocols TLSv1.2 TLSv1.3;

        # A triggerer holds hundreds of operations on one connection, some of them silent for an hour.
        http2_max_concurrent_streams 2048;
        keepalive_requests 1000000;
        keepalive_time 24h;
        keepalive_timeout 2h;
        client_max_body_size 0;
        client_body_timeout 2h;
        send_timeout 2h;
        grpc_read_timeout 2h;
        grpc_send_timeout 2h;
        grpc_socket_keepalive on;

        # The token itself is checked by Spark; who sends none does not get that far.
        location /spark.connect.SparkConnectService/ {{
            if ($http_authorization = "") {{
                return 401;
            }}
            grpc_pass grpc://{upstream};
        }}
        location = /healthy {{
            return 204;
        }}
        location / {{
            return 404;
        }}
    }}
}}
"""


def proxy_configuration(*, bind: str, port: int, upstream: str, secrets: str, run: str) -> str:
    """An nginx.conf. `upstream` is host:port of the Connect server, `secrets` the folder with `connect.crt` and its
    key, `run` one for files of nginx's own."""
    return _CONFIGURATION.format(bind=bind, port=port, upstream=upstream, secrets=secrets, run=run)
