# Python 3.11, 3.12 or 3.13 must be there; everything else goes into .venv, also a Java for hosts without one. The tests want more of the host:
# `make host` installs it where it may, or names it and what is not tested without.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SHELL := /bin/bash
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# The tests start hundreds of Python processes, and each would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo prepare prepared test test-rest test-all test-repeat test-cluster test-kafka test-s3 test-yarn test-kubernetes test-compose check coverage test-fast test-faults test-model test-proof test-spark-versions test-airflow-versions test-matrix test-client lint types imports fmt bench screenshots docs dist clean lock java host cluster cluster-status cluster-down secrets
.DEFAULT_GOAL := help

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

demo: $(READY) java ## a small day, a big one with a killed worker, and a mistake, on a real Airflow and Spark (DEMO_ARGS="--keep")
	@$(BIN)/airflow-abs demo $(DEMO_ARGS)

# What `make test` runs: every test that needs neither Spark, services nor seconds of CPU, and of the others those marked `sample`.
SAMPLE := sample or not (spark or services or cluster or places or slow)

REST := not ($(SAMPLE) or cluster or places)

# One more than two cores: services wait for most of their time.
PROCESSES ?= 3

test: host ## a sample of every promise on real Airflow and Spark: under ten minutes, environment included (TEST_ARGS="-x")
	$(BIN)/pytest -n $(PROCESSES) --durations=10 -m "$(SAMPLE)" $(TEST_ARGS)

# Where Java cannot store classes, the tests run without.
prepared: host
	@$(BIN)/airflow-abs server prepare || echo "the tests run without stored classes, and take longer"

test-rest: prepared ## every test that `make test` leaves out and that needs no cluster or place of its own
	$(BIN)/pytest -n $(PROCESSES) --durations=20 -m "$(REST)" $(TEST_ARGS)

test-all: test test-rest check test-cluster test-kafka test-s3 ## everything that a release must pass: about an hour

test-cluster: prepared ## the cluster of processes: two triggerers, Celery, PostgreSQL and Spark's workers, killed in turn
	$(BIN)/pytest --durations=10 -m cluster $(TEST_ARGS)

# A place is fetched into build/places once. Each line of its scenes is evidence.
test-kafka: $(READY) java ## streams from a real Kafka broker: killed servers, other slots, a broker that is away for a minute (AIRFLOW_ABS_OUTAGE=120)
	@$(BIN)/python -m testbed.places kafka
	$(BIN)/pytest -s tests/places/test_kafka.py $(TEST_ARGS)

test-s3: $(READY) java ## the daily job on a real store that speaks S3: a retry, a killed server, a wrong key, a store that is away for a minute
	@$(BIN)/python -m testbed.places s3
	$(BIN)/pytest -s tests/places/test_s3.py tests/places/test_s3_requests.py tests/places/test_s3_credentials.py $(TEST_ARGS)

test-yarn: $(READY) java ## the daily job with a Spark server per run on YARN: its token in nothing that others see, a killed master, a killed submitter
	@$(BIN)/python -m testbed.places yarn
	$(BIN)/pytest -s tests/places/test_yarn.py $(TEST_ARGS)

# The provider that it brings is beside this environment, which does without.
test-kubernetes: $(READY) java ## the daily job with a Spark server per run on Kubernetes, as root: deleted pods, a killed submitter, a full namespace, rights
	@$(BIN)/python -m testbed.places kubernetes
	PYTHONPATH=$(CURDIR)/build/places/kubernetes/modules $(BIN)/pytest -s tests/places/test_kubernetes.py $(TEST_ARGS)

# With RUNS=20 that many runs end besides while containers are restarted one after the other.
test-compose: $(READY) ## docker-compose.yaml in real containers, as root: killed and recreated ones, wrong and missing secrets (RUNS=20)
	@$(BIN)/python -m testbed.places compose
	AIRFLOW_ABS_RUNS=$(RUNS) $(BIN)/pytest -s tests/places/test_compose.py $(TEST_ARGS)

TIMES ?= 20
REPEATED := tests/services tests/faults tests/spark/stream tests/operators/streams tests/triggers
test-repeat: prepared ## services, faults and streams again and again while all cores are busy: finds tests that depend on who is faster (TIMES=20, TEST_ARGS)
	@for core in $$(seq $$(nproc)); do nice sh -c 'while :; do :; done' & done; trap 'kill $$(jobs -p)' EXIT; failed=0; \
		for round in $$(seq $(TIMES)); do $(BIN)/pytest -n 2 $(TEST_ARGS) $(REPEATED) || failed=$$((failed + 1)); done; \
		echo "$$failed of $(TIMES) rounds failed"; test $$failed = 0

check: lint types imports ## lint, types and import layers

# Two runs under coverage, twice as slow; what a test kills does not report its lines.
coverage: prepared ## line coverage of all tests, and how much of it `make test` reaches (an hour)
	@rm -rf build/coverage && mkdir -p build/coverage
	-$(BIN)/coverage run --data-file=$(CURDIR)/build/coverage/sample -m pytest -n 2 -m "$(SAMPLE)"
	-$(BIN)/coverage run --data-file=$(CURDIR)/build/coverage/rest -m pytest -n 2 -m "$(REST)"
	@cd build/coverage && $(CURDIR)/$(BIN)/coverage combine -q --keep --data-file=.sample sample.* \
		&& $(CURDIR)/$(BIN)/coverage combine -q --keep --data-file=.all sample.* rest.*
	@sample=$$($(BIN)/coverage report --data-file=build/coverage/.sample --format=total --precision=2); \
		all=$$($(BIN)/coverage report --data-file=build/coverage/.all --format=total --precision=2); \
		awk -v sample=$$sample -v all=$$all 'BEGIN { printf "make test covers %s %% of all lines, make test-all %s %%: a share of %.1f %%\n", sample, all, 100 * sample / all }'

test-fast: $(READY) ## the tests that need neither Spark, services, a browser nor seconds of their own: about a minute
	$(BIN)/pytest -m "not spark and not services and not browser and not cluster and not places and not slow" $(TEST_ARGS)

ifdef NIGHTLY
FAULTS_ARGS ?= --faults 300 --per-run 20
STORE_FAULTS_ARGS ?= --faults 700
endif
test-faults: $(READY) java ## 100 seeded faults on real services, 100 on streams and 200 on an S3 server, by kind (FAULTS_ARGS, STREAM_FAULTS_ARGS, STORE_FAULTS_ARGS="--seed 7"; NIGHTLY=1: 1,000); the short part is in `make test`
	@mkdir -p build
	$(BIN)/python -m tests.faults.store.suite --json build/store-faults.json $(STORE_FAULTS_ARGS)
	$(BIN)/python -m tests.faults.streams --json build/stream-faults.json $(STREAM_FAULTS_ARGS)
	$(BIN)/python -m tests.faults.streams.repartitioning --kills 8
	$(BIN)/python -m tests.faults.suite --json build/faults.json $(FAULTS_ARGS)

test-model: $(READY) ## 100,000 schedules of publishers, readers and gc, and all of the small ones (MODEL_ARGS="--schedules 5000")
	$(BIN)/python -m tests.model --all $(MODEL_ARGS)

test-proof: $(READY) java ## the corpus at 1, 2 and 7 subtasks, with and without edges, TPC-H and TPC-DS, 20,000 compositions (hours); the short part is in `make test`
	AIRFLOW_ABS_GENERATED_CODE=1 AIRFLOW_ABS_CORPUS_AT=1,2,7 AIRFLOW_ABS_CORPUS_WITHOUT_EDGES=all \
		AIRFLOW_ABS_QUERIES_AT=1,3,8 AIRFLOW_ABS_COMPOSITIONS=20000 \
		$(BIN)/pytest tests/proof -o timeout=0 $(TEST_ARGS)

SPARK_RELEASES ?= 4.0.5 4.1.4 4.2.1 4.3.0
# What depends on the server: transforms and their proof, plans, operations, subtasks, the demo's job.
SERVER_TESTS := tests/testing/test_examples.py tests/faults/test_lost_inputs.py tests/spark/access tests/spark/compile tests/spark/connect tests/spark/proof tests/spark/run tests/spark/test_planning.py tests/proof
test-spark-versions: $(READY) java ## our client and servers of other releases of Spark, each installed with 400 MB below ~/.cache (SPARK_RELEASES=4.1.4)
	@failed=; for release in $(SPARK_RELEASES); do echo "a server of Spark $$release"; \
		AIRFLOW_ABS_SERVER_RELEASE=$$release $(BIN)/pytest $(SERVER_TESTS) $(TEST_ARGS) || failed="$$failed $$release"; \
	done; test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

AIRFLOW_RELEASES ?= 3.1.8 3.2.2
# Of the release line of their clients.
AIRFLOW_SPARK := 4.1.4
# What depends on Airflow: parsing, serialisation, retries and marks; then days, kills and marks on its real services.
AIRFLOW_TESTS := tests/test_airflow_abilities.py tests/test_example_dags.py tests/task_groups tests/triggers/test_cancellation.py \
	tests/services/test_example_dags.py tests/services/test_deferral.py tests/services/test_kill.py
test-airflow-versions: $(READY) java ## the package on other releases of Airflow, each in an environment below build/ of 1 GB, with its own client of Spark (AIRFLOW_RELEASES=3.1.8)
	$(BIN)/python -m testbed.environments $(AIRFLOW_RELEASES:%=airflow-%)
	$(BIN)/airflow-abs server install --spark $(AIRFLOW_SPARK)
	@failed=; for release in $(AIRFLOW_RELEASES); do echo "Airflow $$release"; \
		build/airflow-$$release/bin/python -m pytest -W default $(AIRFLOW_TESTS) $(TEST_ARGS) || failed="$$failed $$release"; \
	done; test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

cells = $(foreach release,$(1),$(addprefix $(release)/,$(2)))
test-matrix: $(READY) java ## the two before, a group of tests of a release at a time, hours: what is green stays so until the commit changes; writes a table into docs/reference/compatibility.md (MATRIX=spark-4.3,airflow-3.1)
	@$(BIN)/python -m testbed.matrix $(call cells,$(SPARK_RELEASES:%=spark-%),$(SERVER_TESTS)) $(call cells,$(AIRFLOW_RELEASES:%=airflow-%),$(AIRFLOW_TESTS))

test-client: $(READY) java ## the same with pyspark-client alone, in build/client; only the server has the whole of Spark
	$(BIN)/python -m testbed.environments
	AIRFLOW_ABS_SERVER_RELEASE=$$(sed -n 's/^pyspark==//p' requirements.lock) build/client/bin/pytest $(SERVER_TESTS) --ignore tests/spark/proof/test_operators.py $(TEST_ARGS)

lint: $(READY) ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY) ## mypy --strict on the package and the testbed
	$(BIN)/mypy

imports: $(READY) ## the import layers
	$(BIN)/lint-imports

fmt: $(READY) ## format, and fix what ruff can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Some minutes; for more see docs/benchmarks.md.
BENCH_ARGS ?= --only chain --only hot_key --only imports --scale 0.3
bench: $(READY) java ## ours and four other ways on the same data, one after the other (BENCH_ARGS="--only chain --scale 8 --repeat 3")
	@mkdir -p build
	$(BIN)/python -m benchmarks --json build/bench.json --markdown build/bench.md $(BENCH_ARGS)

# What the tests of the page draw, and its name in docs/images.
SCREENSHOTS := shop-light:adaptive-plan shop-failed:adaptive-plan-failed shop-hot-key-light:hot-key shop-hot-key-dark:hot-key-dark \
	shop-repair-light:repair shop-repair-dark:repair-dark stream-light:stream
screenshots: $(READY) ## the pictures of the page in docs/images, redrawn by its tests
	$(BIN)/pytest tests/plugins/test_page_timeline.py tests/plugins/streams
	@for each in $(SCREENSHOTS); do cp "build/screenshots/$${each%%:*}.png" "docs/images/$${each##*:}.png"; done

docs: $(READY) ## the documentation site, in build/site; a warning is an error, such as a link that leads nowhere
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -c docs -d build/doctrees . build/site
	@echo "build/site/index.html"

dist: $(READY) ## wheel and sdist, in dist, with metadata that a package index accepts
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist
	$(BIN)/twine check --strict dist/*

cluster: $(READY) ## the cluster of docker-compose.yaml as processes of this host (CLUSTER_ARGS="--folder DIR")
	@$(BIN)/python -m testbed.host --install --only java --only cluster
	@$(BIN)/python -m testbed cluster up $(CLUSTER_ARGS)

cluster-status: $(READY) ## ask every service of the cluster how it is
	@$(BIN)/python -m testbed cluster status $(CLUSTER_ARGS)

cluster-down: $(READY) ## end the cluster; its data stay
	@$(BIN)/python -m testbed cluster down $(CLUSTER_ARGS)

secrets: ## passwords and a certificate for docker-compose.yaml: .env and docker/secrets/; what is there stays
	@$(PYTHON) -m testbed.secrets

lock: ## newest versions that pyproject.toml allows, into requirements.lock
	rm -rf build/lock
	$(PYTHON) -m venv build/lock
	build/lock/bin/pip install --upgrade 'pip>=25.1' hatchling editables
	build/lock/bin/pip install --group dev --group docs '.[demo,cluster,s3,iceberg,delta,java]'
	{ head -n 1 requirements.lock; build/lock/bin/pip freeze --all --exclude airflow-abs --exclude pip; } > build/requirements.lock
	mv build/requirements.lock requirements.lock
	rm -rf build/lock

clean: ## remove the environment and what was built
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis htmlcov

# The lock names every version, so nothing is resolved: the same environment on every day. What is imported is compiled then.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if (3, 11) <= sys.version_info[:2] < (3, 14) else f"Python 3.11, 3.12 or 3.13 is needed, $(PYTHON) is {sys.version.split()[0]}; call make PYTHON=python3.11")'
	@echo "making $(VENV) from requirements.lock (some minutes)"
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --no-deps --no-compile -r requirements.lock
	@$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@$(BIN)/pip check
	@touch $@

java: $(READY)
	@$(BIN)/python -c 'from airflow_abs.spark.server.java import find_java_home; find_java_home()' 2>&1 | tail -n 1 >&2; exit $${PIPESTATUS[0]}

prepare: $(READY) java ## store the classes of Spark's server: each start of one costs half the CPU (the tests start dozens)
	@$(BIN)/airflow-abs server prepare

# Packages of the host are installed while the environment is made.
host: ## what the tests need of this host: install it where that is allowed, else name it
	@$(PYTHON) -m testbed.host --install 2>/dev/null & installing=$$!; \
		$(MAKE) -s --no-print-directory $(READY); made=$$?; wait $$installing; exit $$made
	@$(BIN)/python -m testbed.host --install
