# SPDX-License-Identifier: GPL-2.0-only
"""usage: kubernetes.py [--commands] EXAMPLES UNITS

See tests/docs/kubernetes.
"""

import copy
import re
import shlex
import sys
import tomllib
from pathlib import Path

import kubernetes_validate
import yaml

MEBI = {"Mi": 1, "Gi": 1024, "M": 1, "G": 1024}  # systemd's M is a mebibyte as well


def unit(path):
    """The settings of a unit; of several lines with one name the last."""
    return dict(re.findall(r"^(\w+)=(.*)$", path.read_text(), re.M))


def mebibytes(text):
    number, suffix = re.fullmatch(r"(\d+)(\w+)", text).groups()
    return int(number) * MEBI[suffix]


class Wrong(Exception):
    pass


def need(what, good):
    if not good:
        raise Wrong(what)


def same(what, got, wanted):
    need(f"{what}: {got!r}, not {wanted!r}", got == wanted)


class Examples:
    """All objects of all files, to be looked at and to be broken."""

    def __init__(self, folder):
        self.objects = {}
        for path in sorted(folder.glob("*.yaml")):
            for o in yaml.safe_load_all(path.read_text()):
                key = o["kind"], o["metadata"]["name"]
                assert key not in self.objects, key
                self.objects[key] = o

    def of(self, kind, name=None):
        found = [o for (k, n), o in self.objects.items() if k == kind and name in (None, n)]
        need(f"there is one {kind}", len(found) == 1)
        return found[0]

    def pod(self, kind):
        return self.of(kind)["spec"]["template"]

    def container(self, name):
        found = [c for kind in ("DaemonSet", "StatefulSet")
                 for c in self.pod(kind)["spec"]["containers"] if c["name"] == name]
        need(f"there is one container {name}", len(found) == 1)
        return found[0]


def schema(e, _):
    versions = {v for v in kubernetes_validate.utils.all_versions()}
    assert len(versions) >= 8, versions
    for (kind, name), o in e.objects.items():
        for version in sorted(versions):
            try:
                kubernetes_validate.validate(o, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                at = ".".join(str(p) for p in error.path)
                raise Wrong(f"{kind} {name}, Kubernetes {version}: {at}: {error.message}") from None


def selectors(e, _):
    """What selects finds what it should: the schema knows nothing of it."""
    for kind in ("DaemonSet", "StatefulSet"):
        wanted = e.of(kind)["spec"]["selector"]["matchLabels"]
        need(f"the {kind}'s selector is not empty", wanted)
        need(f"the {kind} selects its pods", wanted.items() <= e.pod(kind)["metadata"]["labels"].items())
    wanted = e.of("NetworkPolicy")["spec"]["podSelector"]["matchLabels"]
    need("the policy is for the pods", wanted.items() <= e.pod("DaemonSet")["metadata"]["labels"].items())
    wanted = e.of("Service")["spec"]["selector"]
    need("the service is for the pods", wanted.items() <= e.pod("StatefulSet")["metadata"]["labels"].items())
    same("the set's service", e.of("StatefulSet")["spec"]["serviceName"], e.of("Service")["metadata"]["name"])
    namespace = e.of("Namespace")
    for kind in ("ConfigMap", "DaemonSet", "NetworkPolicy"):
        same(f"the {kind}'s namespace", e.of(kind)["metadata"]["namespace"], namespace["metadata"]["name"])
    same("what the namespace admits", namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"],
         "privileged")


def volumes(e, _):
    for kind in ("DaemonSet", "StatefulSet"):
        spec = e.pod(kind)["spec"]
        there = {v["name"] for v in spec.get("volumes", [])}
        there |= {c["metadata"]["name"] for c in e.of(kind)["spec"].get("volumeClaimTemplates", [])}
        used = {m["name"] for c in spec["containers"] for m in c["volumeMounts"]}
        same(f"volumes of the {kind}", used, there)
    claim = e.of("StatefulSet")["spec"]["volumeClaimTemplates"][0]["spec"]
    volume = e.of("PersistentVolume")["spec"]
    for o in (claim, volume):
        same("the storage class", o["storageClassName"], e.of("StorageClass")["metadata"]["name"])
    same("the mode of access", claim["accessModes"], volume["accessModes"])
    same("the size", claim["resources"]["requests"]["storage"], volume["capacity"]["storage"])
    same("how volumes are bound", e.of("StorageClass")["volumeBindingMode"], "WaitForFirstConsumer")


def configuration(e, _):
    """dsmd finds its configuration, and in it the folder that mongod's volume is."""
    spec, dsmd = e.pod("DaemonSet")["spec"], e.container("dsmd")
    mounts = {m["name"]: m for m in dsmd["volumeMounts"]}
    paths = {v["name"]: v["hostPath"]["path"] for v in spec["volumes"] if "hostPath" in v}
    for name, path in paths.items():
        same(f"where dsmd has {path}", mounts[name]["mountPath"], path)
    need("dsmd has the run and state directories, the marks and /dev", {"/run/dsmd", "/var/lib/dsmd", "/var/lib/dm-dsm", "/dev"} <= set(paths.values()))
    config = [v["configMap"]["name"] for v in spec["volumes"] if "configMap" in v]
    same("the ConfigMap", config, [e.of("ConfigMap")["metadata"]["name"]])
    file = dsmd["command"][-1].removeprefix("--config=")
    same("where the configuration is", str(Path(file).parent), mounts["config"]["mountPath"])
    text = e.of("ConfigMap")["data"].get(Path(file).name)
    need(f"the ConfigMap has {file}", text)
    [database] = tomllib.loads(text)["database"]
    local = e.of("PersistentVolume")["spec"]["local"]["path"]
    same("mongod's volume", local, database["dbpath"])
    above = Path(paths["data"])
    need("dsmd sees a mount below its folder", above in Path(local).parent.parents)
    same("how mounts come to dsmd", mounts["data"].get("mountPropagation"), "HostToContainer")


def capabilities(command):
    """Those that setpriv leaves."""
    [sets] = [w.split("=")[1].split(",") for w in command if w.startswith("--bounding-set=")] or [["+all"]]
    same("the first that becomes of the bounding set", sets[0], "-all")
    return {"CAP_" + w.removeprefix("+").upper() for w in sets[1:]}


def dsmd_privileges(e, units):
    dsmd, of = e.container("dsmd"), unit(units / "dsmd.service")
    command, context = dsmd["command"], dsmd["securityContext"]
    same("dsmd's capabilities", capabilities(command), set(of["CapabilityBoundingSet"].split()))
    same("dsmd inherits", "--inh-caps=-all" in command, True)
    same("dsmd's memory", mebibytes(dsmd["resources"]["limits"]["memory"]), mebibytes(of["MemoryMax"]))
    same("NoNewPrivileges", "--no-new-privs" in command, of["NoNewPrivileges"] == "yes")
    program = Path(of["ExecStart"].split()[0]).name
    same("what is started", command[command.index("--") + 1], program)
    need("the devices of the node can be opened", context["privileged"])
    # The API server refuses it, the schema does not.
    need("privileges that may not be gained are not given", context.get("allowPrivilegeEscalation", True))
    same("ProtectSystem=strict", context["readOnlyRootFilesystem"], of["ProtectSystem"] == "strict")
    spec = e.pod("DaemonSet")["spec"]
    same("dsmd sees all processes", spec.get("hostPID", False), "ProtectProc" not in of)
    for name in ("hostNetwork", "hostIPC"):
        same(name, spec.get(name, False), False)
    same("PrivateNetwork=: nothing goes out", ("Egress" in e.of("NetworkPolicy")["spec"]["policyTypes"],
                                                e.of("NetworkPolicy")["spec"].get("egress", [])), (True, []))
    need("no token of Kubernetes", spec["automountServiceAccountToken"] is False)


def exporter_privileges(e, units):
    exporter, of = e.container("dsm-exporter"), unit(units / "dsm-exporter.service")
    context = exporter["securityContext"]
    same("its capabilities", (context["capabilities"].get("drop"), context["capabilities"].get("add", [])),
         (["ALL"], of["CapabilityBoundingSet"].split()))
    need("it is not root", context["runAsNonRoot"] and context["runAsUser"] > 0 and context["runAsGroup"] > 0)
    need("it is not privileged", not context.get("privileged", False))
    same("NoNewPrivileges", context["allowPrivilegeEscalation"], of["NoNewPrivileges"] != "yes")
    same("what it writes to", [m["name"] for m in exporter["volumeMounts"] if not m.get("readOnly")], [])
    same("what it sees", [m["mountPath"] for m in exporter["volumeMounts"]], ["/run/dsmd"])
    same("its memory", mebibytes(exporter["resources"]["limits"]["memory"]), mebibytes(of["MemoryMax"]))
    same("what is started", exporter["command"], [Path(of["ExecStart"].split()[0]).name])


def ports(e, _):
    exporter = e.container("dsm-exporter")
    listen = {v["name"]: v["value"] for v in exporter["env"]}["DSM_EXPORTER_LISTEN"]
    [port] = exporter["ports"]
    same("the port", int(listen.split(":")[1]), port["containerPort"])
    same("what is asked whether it is ready", exporter["readinessProbe"]["httpGet"]["port"], port["name"])
    same("what is scraped", e.pod("DaemonSet")["metadata"]["annotations"]["prometheus.io/port"], str(port["containerPort"]))
    [rule] = e.of("NetworkPolicy")["spec"]["ingress"]
    same("what may be asked", rule["ports"], [{"protocol": "TCP", "port": port["name"]}])
    need("not everybody may ask", rule["from"][0]["namespaceSelector"]["matchLabels"])


CHECKS = [
    (schema, "Kubernetes' schemas know all of it"),
    (selectors, "what selects finds what it should"),
    (volumes, "volumes are there, and are used"),
    (configuration, "dsmd looks where mongod's volume is"),
    (dsmd_privileges, "dsmd has the privileges of its unit"),
    (exporter_privileges, "dsm-exporter has those of its own"),
    (ports, "one port is listened at, asked, and open to Prometheus"),
]


# Each of these must be noticed by the check that is named.

def daemon(e):
    return e.of("DaemonSet")["spec"]


def words(e, old, new):
    e.container("dsmd")["command"] = [w.replace(old, new) for w in e.container("dsmd")["command"]]


MUTATIONS = [
    (schema, "a field that there is not", lambda e: e.container("dsmd").update(volumeMount=[])),
    (schema, "no selector", lambda e: daemon(e).pop("selector")),
    (schema, "a number for a text", lambda e: e.of("ConfigMap")["data"].update(x=1)),
    (schema, "an image with no name", lambda e: e.container("dsm-exporter").pop("name")),
    (schema, "a volume with no size", lambda e: e.of("PersistentVolume")["spec"].update(capacity="900Gi")),
    (schema, "a kind of node affinity", lambda e: e.of("PersistentVolume")["spec"]["nodeAffinity"].update(preferred={})),
    (schema, "a class without provisioner", lambda e: e.of("StorageClass").pop("provisioner")),
    (selectors, "a selector for others", lambda e: daemon(e)["selector"]["matchLabels"].update(x="y")),
    (selectors, "another namespace", lambda e: e.of("ConfigMap")["metadata"].update(namespace="default")),
    (volumes, "a mount of nothing", lambda e: daemon(e)["template"]["spec"]["volumes"].pop()),
    (volumes, "another class", lambda e: e.of("StorageClass")["metadata"].update(name="x")),
    (configuration, "another dbpath", lambda e: e.of("PersistentVolume")["spec"]["local"].update(path="/srv/dsm/rs1/db")),
    (configuration, "the mount point itself", lambda e: (
        e.of("PersistentVolume")["spec"]["local"].update(path="/srv/dsm/rs0"),
        e.of("ConfigMap")["data"].update({"dsmd.toml": e.of("ConfigMap")["data"]["dsmd.toml"].replace("/rs0/db", "/rs0")}))),
    (configuration, "no propagation", lambda e: [m.pop("mountPropagation", 0) for m in e.container("dsmd")["volumeMounts"]]),
    (dsmd_privileges, "one capability less", lambda e: words(e, ",+dac_read_search", "")),
    (dsmd_privileges, "one capability more", lambda e: words(e, "+sys_admin", "+sys_admin,+fowner")),
    (dsmd_privileges, "half of its memory", lambda e: e.container("dsmd")["resources"]["limits"].update(memory="512Mi")),
    (dsmd_privileges, "all capabilities", lambda e: words(e, "-all,", "")),
    (dsmd_privileges, "new privileges", lambda e: e.container("dsmd")["command"].remove("--no-new-privs")),
    (dsmd_privileges, "not privileged", lambda e: e.container("dsmd")["securityContext"].update(privileged=False)),
    (dsmd_privileges, "its own processes only", lambda e: daemon(e)["template"]["spec"].pop("hostPID")),
    (dsmd_privileges, "the node's network", lambda e: daemon(e)["template"]["spec"].update(hostNetwork=True)),
    (exporter_privileges, "an exporter that is root", lambda e: e.container("dsm-exporter")["securityContext"].update(runAsUser=0)),
    (exporter_privileges, "an exporter with a capability", lambda e: e.container("dsm-exporter")["securityContext"]["capabilities"].update(add=["SYS_ADMIN"])),
    (exporter_privileges, "an exporter that sees devices", lambda e: e.container("dsm-exporter")["volumeMounts"].append({"name": "dev", "mountPath": "/dev", "readOnly": True})),
    (ports, "another port", lambda e: e.container("dsm-exporter")["ports"][0].update(containerPort=9188)),
]


def test(what, why=None):
    print(f"not ok - kubernetes: {what}: {why}" if why else f"ok - kubernetes: {what}", flush=True)
    return why is None


def said(check, e, units):
    try:
        check(e, units)
    except Wrong as error:
        return str(error)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        return f"it is not formed as it should be: {error!r}"
    return None


def commands(e):
    """Functions that run what the containers run, and the configuration of dsmd."""
    for name in ("dsmd", "dsm-exporter"):
        container = e.container(name)
        env = [f"{v['name']}={v['value']}" for v in container.get("env", [])]
        print(f"container_{name.replace('-', '_')}() {{ exec env {shlex.join(env + container['command'])}; }}")
    [(file, text)] = e.of("ConfigMap")["data"].items()
    print(f"configuration() {{ printf %s {shlex.quote(text)} >\"$1/{file}\"; }}")


def main(folder, units):
    e = Examples(folder)
    good = [test(what, said(check, e, units)) for check, what in CHECKS]
    if not all(good):
        return 1  # what is broken already cannot be broken to see whether that is noticed
    for check, what, mutate in MUTATIONS:
        broken = copy.deepcopy(e)
        mutate(broken)
        noticed = said(check, broken, units)
        good.append(test(f"{what}: it is noticed", None if noticed else f"{check.__name__} says nothing"))
        print(f"# {noticed}")
    return 0 if all(good) else 1


if __name__ == "__main__":
    if sys.argv[1] == "--commands":
        commands(Examples(Path(sys.argv[2])))
    else:
        sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
