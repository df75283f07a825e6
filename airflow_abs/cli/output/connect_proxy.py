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
        {listen}
        ssl_certificate {secrets}/connect.crt;
        ssl_certificate_key {secrets}/connect.key;
        ssl_protocols TLSv1.2 TLSv1.3;

        # A name in a variable is looked up again and again: a container that comes back has another address.
        {resolver}set $spark_connect {upstream};

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
            grpc_pass grpc://$spark_connect;
        }}
        # Spark refuses what is no call, but it answers: without an answer there is a 502 or 504.
        location = /healthy {{
            grpc_pass grpc://$spark_connect;
            grpc_connect_timeout 3s;
            grpc_read_timeout 3s;
            grpc_intercept_errors on;
            error_page 400 404 405 415 =204 @answers;
        }}
        location @answers {{
            return 204;
        }}
        location / {{
            return 404;
        }}
    }}
}}
"""


def proxy_configuration(
    *,
    bind: str,
    port: int,
    upstream: str,
    secrets: str,
    run: str,
    resolver: str = "",
    has_http2_directive: bool = False,
) -> str:
    """An nginx.conf.

    Args:
        bind, port: where it listens.
        upstream: host:port of the Connect server.
        secrets: the folder with `connect.crt` and its key.
        run: a folder for files of nginx's own.
        resolver: address of the DNS server that knows the host; "" where that is an address itself.
        has_http2_directive: of nginx from 1.25.1 on, which finds the older spelling deprecated.
    """
    listen = f"listen {bind}:{port} ssl"
    return _CONFIGURATION.format(
        listen=f"{listen};\n        http2 on;" if has_http2_directive else f"{listen} http2;",
        resolver=f"resolver {resolver} valid=5s ipv6=off;\n        " if resolver else "",
        upstream=upstream,
        secrets=secrets,
        run=run,
    )
