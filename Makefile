# Two commands set everything up: `make demo` and `make test`. CI calls these targets and nothing else.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
LOCAL_AWS := $(VENV)/local-aws
CDK    := $(VENV)/.cdk-installed
DIAGRAMS := $(VENV)/.diagrams-installed
DOWNLOADS := build/.artefact-packages

# bytecode that is not written is compiled again by each of the many processes that the tests start
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo test check quick format lint prose schemas reference recordings types imports collect unit fuzz coverage mutants synth layer ddprobe packages image man wheel cloudformation dist lock bench proof docs release clean
.DEFAULT_GOAL := test

# the parts beside .venv need nothing of each other, and mostly wait for downloads
setup: $(VENV)/.installed
	@$(MAKE) --no-print-directory --jobs=4 $(LOCAL_AWS)/.installed $(CDK) $(DIAGRAMS) layer

$(VENV)/.installed: requirements.txt pyproject.toml lab/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "burstwatch needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V). Try: make PYTHON=python3.12" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e lab
	@touch $@

# the local AWS pins another botocore than ours, so it lives apart
$(LOCAL_AWS)/.installed: lab/local-aws.txt | $(VENV)/.installed
	$(BIN)/python -m venv $(LOCAL_AWS)
	$(LOCAL_AWS)/bin/pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r lab/local-aws.txt
	@touch $@

# the CDK's command; its node comes with .venv
$(CDK): infra/cli/package-lock.json | $(VENV)/.installed
	PATH="$(CURDIR)/$(BIN):$$PATH" npm ci --silent --no-audit --no-fund --prefix infra/cli
	ln -sf $(CURDIR)/infra/cli/node_modules/.bin/cdk $(BIN)/cdk
	@touch $@

# what draws the diagrams of the documentation site
$(DIAGRAMS): documents/site/package-lock.json | $(VENV)/.installed
	PATH="$(CURDIR)/$(BIN):$$PATH" npm ci --silent --no-audit --no-fund --prefix documents/site
	@touch $@

# what the functions import, for their platform; stamped with what it was made of, so this costs nothing twice
layer: $(VENV)/.installed
	@$(BIN)/python -m infra.dependencies

# of which the tests make a container image, and check the Helm chart; where it cannot be had, they are skipped
$(DOWNLOADS): integrations/container/requirements.txt integrations/kubernetes/check.txt | $(VENV)/.installed
	-$(BIN)/python integrations/container/build.py --download
	-$(BIN)/python integrations/kubernetes/check.py --download
	@touch $@

# the container image of `burstctl watch`, in build/container; needs Debian 12
image: setup
	$(BIN)/python integrations/container/build.py

demo: setup
	$(BIN)/burstlab demo --deployed

# before each commit: all that needs no disk, browser or process of its own; half a minute
check: setup
	$(MAKE) --jobs=3 lint types imports
	$(MAKE) quick

# collecting once compiles the tests, which each worker of pytest would do by itself, while another processor checks the types
test: setup
	$(MAKE) --jobs=3 $(DOWNLOADS) lint types imports collect
	$(MAKE) unit

format: setup
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

lint: setup prose build/.github-files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python ddprobe/join_modules.py --check
	$(BIN)/python -m documents.generate
	$(BIN)/python -m documents.reference
	git diff --exit-code --stat docs/schemas docs/reference

SCHEMA := $(BIN)/check-jsonschema --quiet --builtin-schema
WORKFLOWS := $(wildcard .github/workflows/*.yml)
FORMS := $(wildcard .github/ISSUE_TEMPLATE/*.yml)
build/.github-files: $(WORKFLOWS) $(FORMS) .github/dependabot.yml $(VENV)/.installed
	$(SCHEMA) vendor.github-workflows $(WORKFLOWS)
	$(SCHEMA) custom.github-workflows-require-timeout $(WORKFLOWS)
	$(SCHEMA) vendor.dependabot .github/dependabot.yml
	$(SCHEMA) vendor.github-issue-forms $(filter-out %/config.yml,$(FORMS))
	$(SCHEMA) vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	@mkdir -p build
	@touch $@

# docs/schemas, from the types in documents/
schemas: setup
	$(BIN)/python -m documents.generate

# docs/reference, from the commands, the policy and the other names in the code
reference: setup
	$(BIN)/python -m documents.reference

# docs/assess.svg and docs/top.svg: burstctl on a terminal, before a fleet of the lab
recordings: setup
	$(BIN)/python -m documents.recordings

# the words of pages, strings, comments and names: lab/checks/words.toml has the list
prose: setup
	$(BIN)/python lab/checks/prose.py

types: setup
	$(BIN)/mypy

imports: setup
	$(BIN)/lint-imports

quick: setup
	$(BIN)/pytest -n auto --maxprocesses 4 --dist loadgroup --no-loadscope-reorder tests/unit tests/scenarios

collect: setup
	$(BIN)/pytest --quiet --quiet --collect-only > /dev/null

# Twice as many workers as cores, because many tests wait for a disk or a clock. What measures a disk comes after,
# when nothing else runs, on eight disks at once: it mostly waits.
unit: setup
	$(BIN)/pytest -n $$((2 * $$(nproc))) --dist loadgroup --no-loadscope-reorder -m "not measures_a_disk"
	$(BIN)/pytest -n 8 --dist loadgroup -m measures_a_disk tests/probe tests/lab/disk

# how much of the core its own tests run; fails below what was reached
coverage: setup
	$(BIN)/coverage run --data-file=build/coverage -m pytest -p no:cacheprovider tests/unit tests/property
	$(BIN)/coverage report --data-file=build/coverage

# which small faults in the core its tests would not notice; `make mutants MODULE=flips.guards` takes minutes, all takes hours
mutants: setup
	$(BIN)/python lab/bench/source/mutants.py $(MODULE)

# other examples every time: of what is read from outside, many times those of `make test` (`make fuzz TIMES=10` for
# less), and of the other invariants as many
TIMES ?= 100
fuzz: setup
	FUZZ_TIMES=$(TIMES) $(BIN)/pytest $(wildcard tests/property/test_fuzz_*.py)
	$(BIN)/pytest -n auto --hypothesis-profile random --ignore-glob '*/test_fuzz_*.py' tests/property tests/lab

bench: setup
	$(BIN)/python lab/bench/cost/watch_cost.py
	$(BIN)/python lab/bench/cost/stack_cost.py
	$(BIN)/python lab/bench/assess_pass.py 100 1000 10000
	$(BIN)/python lab/bench/flip_pass.py 1000:50 10000:500
	$(BIN)/python lab/bench/report.py 1000 10000
	$(BIN)/python lab/bench/startup.py
	$(BIN)/python lab/bench/install.py
	$(BIN)/python lab/bench/artefacts/site.py
	$(BIN)/python lab/bench/artefacts/dist.py
	$(BIN)/python lab/bench/ledger.py
	$(BIN)/python lab/bench/ledger_dynamodb.py
	$(BIN)/python lab/bench/year.py
	$(BIN)/python lab/bench/call_trace.py
	$(BIN)/python lab/bench/fleet.py
	$(BIN)/python lab/bench/fleet.py --draining
	$(BIN)/python lab/bench/fleet.py --draining --ledger dynamodb
	$(BIN)/python lab/bench/cost/organisation_estimate.py
	$(BIN)/python lab/bench/probe.py
	$(BIN)/python lab/bench/deployed.py
	$(BIN)/python lab/bench/slow_endpoint.py

# the tables of docs/benchmarks.md and docs/reliability.md in one go; an hour or two. TRACES holds cloudphysics/, pcp/, nab/
RECORDED = $(TRACES)/cloudphysics@1,4 $(TRACES)/pcp@4,8 $(TRACES)/nab@16,32
proof: setup
	@test -d "$(TRACES)" || { echo "make proof TRACES=FOLDER: the folder of the recordings, with cloudphysics, pcp and nab in it" >&2; exit 2; }
	$(BIN)/burstlab score $(RECORDED) --picture build/score.png
	$(BIN)/burstlab score $(RECORDED) --every 4 --held queued
	$(BIN)/burstlab faults --on desk
	$(BIN)/burstlab faults --on deployed
	$(BIN)/burstlab crowd --watchdogs 2
	$(BIN)/burstlab crowd --watchdogs 10
	$(BIN)/burstlab crowd --watchdogs 2 --ledger dynamodb
	$(BIN)/burstlab crowd --watchdogs 10 --ledger dynamodb
	$(BIN)/burstlab crowd --watchdogs 2 --kill-at 1-40
	$(BIN)/burstlab month
	$(MAKE) bench

# the templates of the default stage, checked by cdk-nag; `make synth STAGE=stage.yaml` for another
synth: setup
	PATH="$(CURDIR)/$(BIN):$$PATH" cdk synth --quiet --output build/cdk.out $(if $(STAGE),-c stage=$(STAGE))

# the one file that ships, from the modules in ddprobe/src
ddprobe: setup
	$(BIN)/python ddprobe/join_modules.py

# ddprobe as .deb and .rpm, in build/; needs dpkg-deb and rpmbuild
packages: setup
	$(BIN)/python ddprobe/package/build.py build

# the manual page of burstctl, which the wheel contains; `man -l runbooks/burstctl.1` shows it
man: setup
	$(BIN)/python -m burstctl.manpage runbooks/burstctl.1

# burstctl as a wheel and an sdist, in dist/, with their checksums; the same input gives the same bytes
wheel: setup
	rm -rf dist
	$(BIN)/hatchling build --directory dist
	cd dist && sha256sum burstwatch-* > SHA256SUMS

# the documentation site, in build/site; a link that leads nowhere, or a page in no list, is an error
docs: setup
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --fresh-env --write-all --jobs auto \
	  --doctree-dir build/site-cache --conf-dir documents/site . build/site
	@echo "build/site/index.html"

# the plain CloudFormation template with its archives and upload.sh, in build/cloudformation; `make cloudformation
# STAGE=stage.yaml` for other defaults of its parameters
cloudformation: setup
	rm -rf build/cloudformation
	$(BIN)/python -m infra.plain_files build/cloudformation $(if $(STAGE),--stage $(STAGE))

# everything that people install, in dist/, with checksums, bills of materials and provenance; `make dist STAGE=stage.yaml`
# for other defaults of the CloudFormation template; needs Debian 12 and rpmbuild
dist: setup
	$(BIN)/python -m integrations.dist $(if $(STAGE),--stage $(STAGE))

# checks what is committed, builds it in dist/, and prints the commands that publish it; `make release DRY_RUN=1` only
# prints them, and what is lacking
release: setup
	.ci/release $(if $(DRY_RUN),--dry-run)

lock: setup
	$(BIN)/uv pip compile --quiet --universal --all-extras $(addprefix --group ,functions synth lab development site) \
	  --python-version 3.11 --generate-hashes --no-header --no-emit-index-url pyproject.toml -o requirements.txt
	$(BIN)/uv pip compile --quiet --python-platform aarch64-unknown-linux-gnu --python-version 3.14 --generate-hashes --no-header \
	  --no-emit-index-url -c requirements.txt infra/layer.in -o infra/layer.txt
	for name in local-aws compare; do $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	  --no-header --no-emit-index-url lab/$$name.in -o lab/$$name.txt || exit; done
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	  --no-emit-index-url -c requirements.txt pyproject.toml -o integrations/container/requirements.txt
	$(BIN)/uv pip compile --quiet --universal --no-deps --python-version 3.11 --generate-hashes --no-header \
	  --no-emit-index-url integrations/kubernetes/check.in -o integrations/kubernetes/check.txt
	for folder in infra/cli documents/site; do \
	  PATH="$(CURDIR)/$(BIN):$$PATH" npm install --silent --package-lock-only --omit-lockfile-registry-resolved \
	    --no-audit --no-fund --prefix $$folder || exit; done

clean:
	rm -rf $(VENV) demo build dist cdk.out infra/cli/node_modules documents/site/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
