"""Without credentials nothing is given, by no route: asked in a process with Airflow's own auth manager."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

# The auth manager refuses before anything is read, so there is no database here.
SCRIPT = """
import json, warnings
warnings.simplefilter("ignore")
from fastapi.testclient import TestClient
from airflow.api_fastapi.app import init_auth_manager
from airflow_abs.plugins.app import build_app
init_auth_manager()
app = build_app()
client = TestClient(app)
routes = [route.path for route in app.routes]
query = {"dag_id": "daily_revenue", "run_id": "r"}
told = {}
tries = {
    "nothing": ({}, {}),
    "forged header": ({"Authorization": "Bearer x"}, {}),
    "forged cookie": ({}, {"_token": "x"}),
}
for name, (headers, cookies) in tries.items():
    client.cookies.clear()
    client.cookies.update(cookies)
    told[name] = {path: client.get(path, params=query, headers=headers).status_code for path in routes}
client.cookies.clear()
page = client.get("/plan", params=query)
shown = "Not signed in" in page.text
print(json.dumps({"routes": routes, "told": told, "type": page.headers["content-type"], "shown": shown}))
"""


def test_every_route_refuses_who_is_not_signed_in(airflow_environment: Any) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT],
        env={**airflow_environment.variables, "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False"},
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert sorted(found["routes"]) == [
        "/api/history",
        "/api/run",
        "/api/streams",
        "/plan",
        "/streams",
    ]  # a new one is tried as well
    assert found["told"]["nothing"] == dict.fromkeys(found["routes"], 401)
    assert found["told"]["forged header"] == dict.fromkeys(found["routes"], 403)
    assert found["told"]["forged cookie"] == dict.fromkeys(found["routes"], 403)
    assert found["type"].startswith("text/html")
    assert found["shown"]


def test_loading_the_plugin_loads_nothing_of_the_page(airflow_environment: Any) -> None:
    code = (
        "import sys; import airflow_abs.plugins.adaptive_plan; "
        "print([name for name in sys.modules if name.startswith('airflow_abs.plugins.') or "
        "name.split('.')[0] in ('pyspark', 'grpc', 'pyarrow')])"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env=airflow_environment.variables,
        capture_output=True,
        text=True,
        check=True,
        timeout=400,
    )
    loaded = ["airflow_abs.plugins.last_complete_day", "airflow_abs.plugins.adaptive_plan"]
    assert done.stdout.splitlines()[-1] == str(loaded)
