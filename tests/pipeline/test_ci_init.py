"""Are the pipelines what the platforms accept: valid, pinned, with the least rights, and no secret for strangers?"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from grader import cli
from grader.pipeline import init
from grader.text import LANGUAGES

COURSE = init.Course("https://example.org/class/flashdojo.git", "0123456789abcdef0123456789abcdef01234567")
SCHEMAS = {"github": ("vendor.github-workflows",), "gitlab": ("vendor.gitlab-ci", "--data-transform", "gitlab-ci")}


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("platform", SCHEMAS)
def test_the_platforms_schema_accepts_it(platform: str, lang: str, tmp_path: Path) -> None:
    check = pytest.importorskip("check_jsonschema.cli")
    from click.testing import CliRunner

    file = init.write(platform, tmp_path, COURSE, lang)
    done = CliRunner().invoke(check.main, ["--builtin-schema", *SCHEMAS[platform], str(file)])
    assert done.exit_code == 0, done.output


@pytest.mark.skipif(not shutil.which("zizmor"), reason="needs zizmor: pip install -e '.[dev]'")
def test_zizmor_finds_no_hole_in_it(tmp_path: Path) -> None:
    file = init.write("github", tmp_path, COURSE, "en")
    done = subprocess.run(
        ["zizmor", "--offline", "--no-progress", "--persona=pedantic", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("platform", init.FILES)
def test_both_languages_are_the_same_pipeline(platform: str) -> None:
    texts = {lang: init.pipeline(platform, COURSE, lang) for lang in LANGUAGES}
    documents = [yaml.safe_load(text.replace(f"FLASHDOJO_LANG: {lang}", "")) for lang, text in texts.items()]
    assert documents[0] == documents[1]
    assert "@@" not in texts["en"] + texts["zh"]
    assert re.search(r"[\u4e00-\u9fff]", texts["zh"])
    assert not re.search(r"[\u4e00-\u9fff]", texts["en"])


def job(platform: str) -> dict:
    document = yaml.safe_load(init.pipeline(platform, COURSE, "en"))
    return document["flashdojo"] if platform == "gitlab" else document["jobs"]["grade"]


def test_github_is_pinned_and_may_only_read() -> None:
    document = yaml.safe_load(init.pipeline("github", COURSE, "en"))
    assert document["permissions"] == {"contents": "read"}
    assert "pull_request_target" not in document[True]  # YAML 1.1 reads "on" as true
    used = [step["uses"] for step in job("github")["steps"] if "uses" in step]
    assert len(used) == 5
    for action in used:
        assert re.fullmatch(r"actions/[\w/-]+@[0-9a-f]{40}", action)
    (checkout,) = (step for step in job("github")["steps"] if step.get("uses", "").startswith("actions/checkout"))
    assert checkout["with"]["persist-credentials"] is False


def test_gitcode_may_only_read() -> None:
    document = yaml.safe_load(init.pipeline("gitcode", COURSE, "en"))
    assert document["permissions"].pop("repository") == "read"
    assert set(document["permissions"].values()) == {"none"}
    assert "pull_request_target" not in document[True]


@pytest.mark.parametrize("platform", ["github", "gitcode"])
def test_only_the_grading_step_sees_the_secret(platform: str) -> None:
    for step in job(platform)["steps"]:
        assert ("secrets." in str(step)) == (step["name"] == "Grade")
        assert "${{" not in step.get("run", "")  # nothing of an event is pasted into a shell
    assert "secrets." not in str(job(platform)["env"])


@pytest.mark.parametrize("platform", init.FILES)
def test_the_course_stands_at_one_commit(platform: str) -> None:
    settings = job(platform).get("env") or job(platform)["variables"]
    assert settings["FLASHDOJO_COURSE"] == COURSE.url
    assert settings["FLASHDOJO_COURSE_REF"] == COURSE.ref
    assert COURSE.ref in str(job(platform).get("cache") or job(platform)["steps"])


@pytest.mark.parametrize(
    ("given", "public"),
    [
        ("git@gitcode.com:ascend/dojo.git", "https://gitcode.com/ascend/dojo.git"),
        ("ssh://git@host.org:2222/a/b.git", "https://host.org/a/b.git"),
        ("https://name:token@host.org/a/b.git", "https://host.org/a/b.git"),
        ("https://host.org/a/b.git", "https://host.org/a/b.git"),
        ("/srv/git/dojo", "/srv/git/dojo"),
    ],
)
def test_the_address_is_one_for_everybody(given: str, public: str) -> None:
    assert init.course(given, "main").url == public


@pytest.mark.parametrize(
    ("url", "ref"), [("https://x.org/a b", "main"), ("$(touch x)", "main"), ("https://x.org/a", "$(x)"), ("a", "--x")]
)
def test_what_is_no_address_or_commit_is_refused(url: str, ref: str) -> None:
    with pytest.raises(init.NoPipeline):
        init.course(url, ref)


def test_an_existing_pipeline_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "ci",
        "init",
        "gitlab",
        "--dir",
        str(tmp_path),
        "--course",
        COURSE.url,
        "--ref",
        "main",
        "--lang",
        "en",
    ]
    file = tmp_path / ".gitlab-ci.yml"
    file.write_text("mine: {}\n")
    assert cli.main(arguments) == 2
    assert "was left alone" in capsys.readouterr().err
    assert file.read_text() == "mine: {}\n"
    assert cli.main([*arguments, "--force"]) == 0
    assert "flashdojo:" in file.read_text()


def test_bad_input_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    course = ["--course", COURSE.url, "--ref", "main"]
    for arguments in (["jenkins", *course], ["github", *course, "--dir", str(tmp_path / "nowhere")]):
        assert cli.main(["ci", "init", *arguments]) == 2
        assert capsys.readouterr().err.count("\n") == 1
