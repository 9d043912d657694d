# SPDX-License-Identifier: GPL-2.0-only
"""usage: tests/dashboard/alerts.py RULES METRICS

Has promtool look at the alerts in RULES, and makes each fire: with series that call for
it alone, and with those of a device that is well, which call for none. METRICS is
what /metrics gave, or the page that names them.
"""
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

WELL = {
    "dsm_up": "1+0x{n}",
    "dsm_agent_up": "1+0x{n}",
    "dsm_agent_restarts_total": "0+0x{n}",
    "dsm_agent_checkpoints_total": "0+1x{n}",
    "dsm_stream_writes_total": "0+1000x{n}",
    "dsm_stream_bytes_total": "0+100000x{n}",
    "dsm_unmapped_bytes_total": "0+1000x{n}",
    "dsm_agent_outgrown": "0+0x{n}",
    "dsm_agent_refusals_total": "0+0x{n}",
    "dsm_discard_failed_total": "0+0x{n}",
    "dsm_agent_discard_on": "1+0x{n}",
    "dsm_agent_audit_only": "0+0x{n}",
    "dsm_agent_audit_failed": "0+0x{n}",
    "dsm_discard_held_max_seconds": "0.1+0x{n}",
    "dsm_server_up": "1+0x{n}",
    "dsm_drive_media_written_bytes_total": "0+200000x{n}",
    "dsm_drive_host_written_bytes_total": "0+100000x{n}",
}

# What dsm-exporter says when dsmd has ended: this and nothing else
ENDED = {metric: "_x{n}" for metric in WELL} | {"dsm_agent_up": "0+0x{n}"}

# What is not well, and the minute at which the alert has to be there
CALLS = {
    "DsmDeviceMissing": ({"dsm_up": "0+0x{n}"}, 6),
    "DsmAgentDown": ({"dsm_agent_up": "0+0x{n}"}, 6),
    "DsmAgentRestarts": ({"dsm_agent_restarts_total": "0+1x{n}"}, 10),
    "DsmNoCheckpoints": ({"dsm_agent_checkpoints_total": "7+0x{n}"}, 60),
    "DsmUnmappedWrites": ({"dsm_unmapped_bytes_total": "0+6000x{n}"}, 130),
    "DsmBoundariesOutgrown": ({"dsm_agent_outgrown": "3+0x{n}"}, 1450),
    "DsmUploadsRefused": ({"dsm_agent_refusals_total": "0x5 1+0x{n}"}, 10),
    "DsmDiscardsFail": ({"dsm_discard_failed_total": "0x5 1+0x{n}"}, 10),
    "DsmAuditFailed": ({"dsm_agent_audit_failed": "0x5 1+0x{n}"}, 10),
    "DsmDiscardsOff": ({"dsm_agent_discard_on": "0+0x{n}", "dsm_agent_audit_only": "_x{n}"}, 35),
    "DsmWritesHeld": ({"dsm_discard_held_max_seconds": "2+0x{n}"}, 5),
    "DsmServerDown": ({"dsm_server_up": "0+0x{n}"}, 12),
    "DsmWriteAmplification": ({"dsm_drive_media_written_bytes_total": "0+400000x{n}"}, 2900),
}


def case(name, other, minute, severity):
    """A test of promtool's: which alerts there are in that minute."""
    series = {**WELL, **other}
    fires = {"alertname": name, "alertstate": "firing", "device": "dsm", "severity": severity}
    labels = ",".join(f'{key}="{value}"' for key, value in fires.items())
    return {
        "interval": "1m",
        "input_series": [
            {"series": metric + '{device="dsm"}', "values": values.format(n=minute + 10)}
            for metric, values in series.items()
        ],
        "promql_expr_test": [{
            "expr": 'ALERTS{alertstate="firing"}',
            "eval_time": f"{minute}m",
            "exp_samples": [{"labels": f"ALERTS{{{labels}}}", "value": 1}] if name else [],
        }],
    }


def promtool(*words):
    done = subprocess.run(["promtool", *words], capture_output=True, text=True, check=False)
    return done.returncode == 0, (done.stdout + done.stderr).strip().replace("\n", "; ")


def test(what, well, why=""):
    print(f"ok - dashboard: {what}" if well else f"not ok - dashboard: {what}: {why}", flush=True)
    return well


def main(rules, metrics):
    text = Path(rules).read_text()
    alerts = dict(re.findall(r"- alert: (\w+)\n.*?severity: (\w+)", text, re.S))
    used = set(re.findall(r"\bdsm_\w+", " ".join(re.findall(r"expr: (.*)", text))))
    there = set(re.findall(r"\bdsm_\w+", Path(metrics).read_text()))
    results = [
        test("promtool finds the alerts right", *promtool("check", "rules", rules)),
        test("every alert has a test", set(alerts) == set(CALLS), f"{set(alerts) ^ set(CALLS)}"),
        test("alerts ask for metrics that there are", used <= there, f"{used - there}"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        cases = [("", {}, 2900, "no alert fires while all is well"),
                 ("DsmAgentDown", ENDED, 6, "DsmAgentDown fires when dsmd has ended")]
        cases += [(name, *of, f"{name} fires, and no other alert") for name, of in CALLS.items()]
        for name, other, minute, what in cases:
            # YAML takes JSON.
            of = {"rule_files": [str(Path(rules).resolve())], "evaluation_interval": "1m",
                  "tests": [case(name, other, minute, alerts.get(name, ""))]}
            path = Path(folder, "test.yml")
            path.write_text(json.dumps(of))
            results.append(test(what, *promtool("test", "rules", str(path))))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
