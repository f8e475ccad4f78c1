"""The kustomize base renders, is valid for every supported Kubernetes, and keeps our rules."""

from __future__ import annotations

import subprocess
import sysconfig
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from aalis_agent.settings import AgentSettings
from aalis_gateway.settings import GatewaySettings
from aalis_memory.settings import MemorySettings
from aalis_persona.settings import SAMPLES, PersonaSettings
from aalis_sdk.settings import PREFIX

ROOT = Path(__file__).parents[1]
BASE = ROOT / "deploy" / "k8s" / "base"
SCRIPTS = Path(sysconfig.get_path("scripts"))
SERVICES = ("agent", "gateway", "memory", "persona", "prompt-budget")
KUBERNETES = ("1.32", "1.37")

Object = dict[str, Any]


@cache
def rendered() -> str:
    command = [str(SCRIPTS / "kubectl"), "kustomize", str(BASE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@cache
def objects() -> tuple[Object, ...]:
    return tuple(cast("list[Object]", list(yaml.safe_load_all(rendered()))))


def of_kind(*kinds: str) -> list[Object]:
    return [one for one in objects() if one["kind"] in kinds]


def pods() -> list[tuple[str, Object]]:
    kinds = of_kind("Deployment", "StatefulSet", "Job")
    return [(one["metadata"]["name"], one["spec"]["template"]["spec"]) for one in kinds]


@pytest.mark.parametrize("version", KUBERNETES)
def test_every_object_is_strictly_valid(version: str, tmp_path: Path) -> None:
    file = tmp_path / "rendered.yaml"
    file.write_text(rendered(), encoding="utf-8")
    command = [str(SCRIPTS / "kubernetes-validate"), "--strict", "-k", version, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "WARN" not in said
    assert said.count(" passed for resource ") == len(objects())


def test_every_service_is_there_with_what_it_needs() -> None:
    deployed = {one["metadata"]["name"] for one in of_kind("Deployment")}
    assert deployed == {*SERVICES, "valkey"}
    assert {one["metadata"]["name"] for one in of_kind("StatefulSet")} == {"nats"}
    assert {one["metadata"]["name"] for one in of_kind("Job")} == {"topology"}
    assert {one["metadata"]["name"] for one in of_kind("Service")} >= {*SERVICES, "nats", "valkey"}
    guarded = {one["metadata"]["name"] for one in of_kind("PodDisruptionBudget")}
    assert guarded == set(SERVICES)


@pytest.mark.parametrize(("name", "pod"), pods(), ids=[name for name, _ in pods()])
def test_no_pod_may_do_more_than_it_must(name: str, pod: Object) -> None:
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        allowed = container["securityContext"]
        assert allowed["allowPrivilegeEscalation"] is False
        assert allowed["readOnlyRootFilesystem"] is True
        assert allowed["capabilities"] == {"drop": ["ALL"]}
        assert {"cpu", "memory"} <= set(container["resources"]["requests"])
        assert "memory" in container["resources"]["limits"]
        image = container["image"]
        assert ":" in image, name
        assert not image.endswith(":latest")


def test_every_long_lived_container_is_probed_three_ways() -> None:
    for one in of_kind("Deployment", "StatefulSet"):
        for container in one["spec"]["template"]["spec"]["containers"]:
            assert {"startupProbe", "livenessProbe", "readinessProbe"} <= set(container)


def test_liveness_never_asks_whether_others_are_up() -> None:
    for name in SERVICES:
        deployment = next(one for one in of_kind("Deployment") if one["metadata"]["name"] == name)
        container = deployment["spec"]["template"]["spec"]["containers"][0]
        assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
        assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_the_grace_period_leaves_time_to_hand_over() -> None:
    settings = next(one for one in of_kind("ConfigMap") if "AALIS_GRACE_SECONDS" in one["data"])
    grace = float(settings["data"]["AALIS_GRACE_SECONDS"])
    for name in SERVICES:
        deployment = next(one for one in of_kind("Deployment") if one["metadata"]["name"] == name)
        pod = deployment["spec"]["template"]["spec"]
        before = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
        assert pod["terminationGracePeriodSeconds"] >= before + grace + 10


def test_every_setting_in_the_base_exists() -> None:
    known = {
        f"{PREFIX}{field.upper()}"
        for settings in (AgentSettings, GatewaySettings, MemorySettings, PersonaSettings)
        for field in settings.model_fields
    }
    used = {name for one in of_kind("ConfigMap") for name in one["data"] if name.startswith(PREFIX)}
    for _, pod in pods():
        for container in pod["containers"]:
            used |= {variable["name"] for variable in container.get("env", ())}
    assert used
    assert used <= known


def test_the_cards_of_the_base_are_the_samples_of_the_service_and_are_what_it_reads() -> None:
    cards = next(one for one in of_kind("ConfigMap") if one["metadata"]["name"] == "personas")
    samples = {file.name: file.read_text(encoding="utf-8") for file in SAMPLES.glob("*.yaml")}
    assert cards["data"] == samples
    pod = dict(pods())["persona"]
    told = {one["name"]: one.get("value") for one in pod["containers"][0]["env"]}
    mounted = {one["name"]: one["mountPath"] for one in pod["containers"][0]["volumeMounts"]}
    assert {"name": "personas", "configMap": {"name": "personas"}} in pod["volumes"]
    assert told["AALIS_PERSONA_CARDS"] == mounted["personas"]


def test_the_image_has_what_the_launcher_puts_on_the_path() -> None:
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    for source in ("libs/contracts", "libs/sdk", "libs/llm", "cli"):
        assert source in dockerfile
    for service in SERVICES:
        assert f"services/{service}" in dockerfile
