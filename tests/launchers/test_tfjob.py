"""The manifest for Kubeflow: its fields are those of a TFJob, and it runs one of the examples."""

from __future__ import annotations

import copy
import json
import types

import pytest
from support import ROOT
from support.many_workers import documented

MANIFEST = ROOT / "examples" / "tfjob.yaml"


@pytest.fixture
def manifest():
    """The content of the manifest."""
    import yaml

    return yaml.safe_load(MANIFEST.read_text())


def as_kubeflow_reads_it(manifest):
    """The manifest as kubeflow-training's models read it, without fields that they do not know."""
    from kubeflow.training import ApiClient

    client = ApiClient()
    response = types.SimpleNamespace(data=json.dumps(manifest))
    return client.sanitize_for_serialization(client.deserialize(response, "KubeflowOrgV1TFJob"))


def worker(manifest):
    """The specification of the manifest's workers."""
    return manifest["spec"]["tfReplicaSpecs"]["Worker"]


def container(manifest):
    """The only container of a worker."""
    (only,) = worker(manifest)["template"]["spec"]["containers"]
    return only


def test_kubeflow_knows_every_field(manifest):
    assert (manifest["apiVersion"], manifest["kind"]) == ("kubeflow.org/v1", "TFJob")
    assert as_kubeflow_reads_it(manifest) == manifest


@pytest.mark.parametrize(
    ("part", "field"),
    [
        (lambda manifest: manifest, "metadata"),
        (lambda manifest: manifest["spec"]["runPolicy"], "cleanPodPolicy"),
        (worker, "replicas"),
        (worker, "restartPolicy"),
        (container, "command"),
    ],
)
def test_a_misspelt_field_is_noticed(manifest, part, field):
    misspelt = copy.deepcopy(manifest)
    part(misspelt)[f"{field}s"] = part(misspelt).pop(field)
    assert as_kubeflow_reads_it(misspelt) != misspelt


@pytest.mark.parametrize("field", ["runPolicy", "tfReplicaSpecs"])
def test_a_required_field_is_missed(manifest, field):
    manifest["spec"].pop(field)
    with pytest.raises(ValueError, match="must not be `None`"):
        as_kubeflow_reads_it(manifest)


def test_a_number_that_is_none_is_noticed(manifest):
    worker(manifest)["replicas"] = "two"
    with pytest.raises(ValueError, match="'two'"):
        as_kubeflow_reads_it(manifest)


def test_its_workers_run_an_example(manifest, run_workers):
    python, script = container(manifest)["command"]
    assert python == "python"
    assert (ROOT / script).parent == ROOT / "examples"
    count = worker(manifest)["replicas"]
    assert run_workers((ROOT / script).read_text(), count=count) == [documented()] * count
