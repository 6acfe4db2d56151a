"""`scmsim synth`: every workload from its PARAMS, with an input file as argument where it reads one."""

import json

import pytest
from click.testing import CliRunner

from scmsim.cli import main
from scmsim.config import load
from scmsim.core import registry
from scmsim.trace import open_trace


def run(*args):
    return CliRunner().invoke(main, ["synth", *map(str, args)])


@pytest.mark.parametrize("name", registry.names("workload"))
def test_help_names_every_parameter(name):
    text = run(name, "--help").output
    for parameter, (_, unit, _) in registry.literals("workload", name)["PARAMS"].items():
        assert (f"[{parameter.upper()}]" if unit == "file" else f"--{parameter.replace('_', '-')} ") in text


def test_a_job_file_is_the_argument(tmp_path):
    job, out = tmp_path / "j.fio", tmp_path / "o.parquet"
    job.write_text("[a]\nrw=randread\nsize=64k\n")
    told = json.loads(run("fio", job, "-o", out, "--json").stdout)
    trace = open_trace(out)
    assert told == {"path": str(out), "rows": trace.rows, "calls": 18} and trace.header["workload"]["job"] == str(job)


def test_a_bad_job_file_leaves_no_trace(tmp_path):
    job, out = tmp_path / "j.fio", tmp_path / "o.parquet"
    job.write_text("[a]\nfrob=md5\n")
    result = run("fio", job, "-o", out)
    assert result.exit_code and "j.fio:2: option 'frob' is not modelled" in result.output
    assert not list(tmp_path.glob("*.parquet*"))


@pytest.mark.parametrize("program", [(), ("fio",)])
def test_a_command_line_follows_two_dashes(tmp_path, program):
    result = run(
        "fio", "-o", tmp_path / "o.parquet", "--", *program, "--name=a", "--rw=randread", "--size=64k", "--runtime=9"
    )
    assert result.exit_code == 0 and "without effect: runtime" in result.output and "18 calls" in result.output


def test_a_job_file_and_a_command_line_exclude_each_other(tmp_path):
    assert (
        "give a file, or a command line" in run("fio", "j.fio", "-o", tmp_path / "o.parquet", "--", "--rw=read").output
    )


def test_parameters_carry_units(tmp_path):
    out = tmp_path / "o.parquet"
    result = run("iozone", "--max-file", "128KiB", "--tests", "0,1", "--interval", "2us", "-o", out)
    assert result.exit_code == 0 and open_trace(out).header["workload"]["interval"] == 2000
    assert "did you mean 'varmail'" in run("filebench", "--personality", "varmial", "-o", out).output


def test_values_of_variables_are_given_as_in_replay(tmp_path):
    told = []
    for options in (["--set", "nfiles=10 nthreads=1"], ["--set", "nfiles=10", "--set", "nthreads=1"]):
        result = run("filebench", *options, "--flowops", 50, "-o", tmp_path / "o.parquet")
        assert result.exit_code == 0, result.output
        told.append(open_trace(tmp_path / "o.parquet").header["workload"]["set"])
    assert told == 2 * ["nfiles=10 nthreads=1"]


def test_an_experiment_names_a_job_file_relative_to_itself(tmp_path):
    (tmp_path / "j.fio").write_text("[a]\nrw=randread\nsize=64k\n")
    (tmp_path / "e.toml").write_text('fs = "nova-cow"\n[workload]\nkind = "fio"\njob = "j.fio"\n')
    assert load(tmp_path / "e.toml").workload_params == {"job": str(tmp_path / "j.fio")}
