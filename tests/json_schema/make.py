#!/usr/bin/env python3
"""Writes docs/schema/*.json, the JSON schemas of the documents that the commands print, from the types in src/.

usage: make.py [--check]    --check writes nothing and fails if a schema is not that of the source

The documents are what serde makes of Rust types, whose doc comments say what each field means. So the types are read as they
stand there: structs, enums without data, and the few attributes of serde that they use. What is not understood is an error.
check.py holds the schemas against real documents, in which nothing may be that a schema does not name.
"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
DOCUMENTS = {
    "report": ("report/mod.rs", "Report"),
    "compare": ("compare/mod.rs", "Comparison"),
    "inspect": ("inspect/view.rs", "Inspection"),
    "doctor": ("doctor/view.rs", "Examination"),
    "npkit": ("npkit/view.rs", "Npkit"),
}
UNSIGNED = {"u8", "u16", "u32", "u64", "usize"}
SIGNED = {"i8", "i16", "i32", "i64", "isize", "Ns"}
TEXTS = {"String", "str", "PathBuf", "Box<str>", "TrainingOption"}


class Item:
    """A type in the source."""

    def __init__(self, file, name, kind, docs, attributes, body):
        self.file, self.name, self.kind, self.docs, self.attributes, self.body = file, name, kind, docs, attributes, body


def words(docs):
    """A doc comment as text: links are their words."""
    return re.sub(r"\[`([^`]*)`\](\([^)]*\))?", r"\1", " ".join(docs)).replace("`None`", "null").replace("`", "").strip()


def items(file):
    """The types of a file that are serialized."""
    docs, attributes, lines = [], [], file.read_text().splitlines()
    at = 0
    while at < len(lines):
        line = lines[at].strip()
        opened = re.match(r"(?:pub(?:\([^)]*\))? )?(struct|enum) (\w+)(?:<[^>]*>)?\s*(\{|\()?", line)
        if line.startswith("mod tests {"):
            return
        if line.startswith("///"):
            docs.append(line[3:].strip())
        elif line.startswith("#["):
            attribute = line
            while attribute.count("[") != attribute.count("]"):
                at += 1
                attribute += lines[at].strip()
            attributes.append(attribute)
        else:
            if opened and any("derive(" in a and re.search(r"\bSerialize\b", a) for a in attributes):
                body = []
                if opened[3] == "{" and not line.endswith("}"):
                    indent = len(lines[at]) - len(lines[at].lstrip())
                    at += 1
                    while not (lines[at].startswith(" " * indent + "}")):
                        body.append(lines[at])
                        at += 1
                elif opened[3] == "(":
                    body = [line[line.index("(") + 1 : line.rindex(")")]]
                yield Item(file, opened[2], "tuple" if opened[3] == "(" else opened[1], docs, attributes, body)
            docs, attributes = [], []
        at += 1


def split(text):
    """The parts of a list of types, which may hold lists themselves."""
    parts, depth, part = [], 0, ""
    for c in text:
        depth += (c in "<[(") - (c in ">])")
        if c == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += c
    return [p for p in parts + [part.strip()] if p]


def members(item):
    """Each field or variant: name, type, docs, attributes."""
    docs, attributes, text = [], [], ""
    for line in item.body:
        line = line.strip()
        if not text and line.startswith("///"):
            docs.append(line[3:].strip())
        elif not text and line.startswith("#["):
            attributes.append(line)
        elif line and not line.startswith("//"):
            text += line
            balanced = all(text.count(a) == text.count(b) for a, b in ("<>", "()", "[]", "{}"))
            if text.endswith(",") and balanced:
                name, _, kind = text[:-1].partition(": ")
                yield re.sub(r"^pub(\([^)]*\))? ", "", name), kind, docs, attributes
                docs, attributes, text = [], [], ""


def serde(attributes, key):
    """The value of an attribute of serde; True for one without, None if it is not there."""
    for attribute in attributes:
        found = re.match(r"#\[serde\((.*)\)\]", attribute)
        for part in split(found[1]) if found else []:
            name, _, value = part.partition("=")
            if name.strip() == key:
                return value.strip().strip('"') or True
    return None


def cased(name, rule):
    """A variant's name as serde prints it."""
    parts = re.findall(r"[A-Z][a-z0-9]*", name)
    rules = {None: name, "lowercase": name.lower(), "kebab-case": "-".join(parts).lower(), "snake_case": "_".join(parts).lower()}
    return rules[rule]


def metrics():
    """The table of numbers: JSON path, unit, definition."""
    text = (SRC / "model/metric.rs").read_text()
    table = text[text.index("\nmetrics! {") :]
    table = table[: table.index("\n}")]
    row = r'^\s*\w+ "([^"]+)" "[^"]+" (\w+)(?:\([^)]*\))?, \w+, "([^"]+)";'
    found = re.findall(row, table, re.M)
    assert len(found) == sum(line.endswith(";") for line in table.splitlines()), "a line of the table of metrics is not understood"
    return found


def catalogue():
    """The names of findings and warnings, in the order of the table."""
    text = (SRC / "catalogue/table.rs").read_text()
    found = re.findall(r'^    \w+ "([a-z0-9-]+)" \[', text[text.index("\ncatalogue! {") :], re.M)
    assert len(found) > 50 and len(found) == len(set(found)), "the table of findings is not understood"
    return found


class Schema:
    """One document's schema while it is made."""

    def __init__(self, types):
        self.types, self.definitions, self.names = types, {}, {}

    def find(self, name, file):
        """The type that a name means in a file."""
        found = self.types.get(name, [])
        if len(found) > 1:
            own = [item for item in found if item.file == file]
            imported = re.findall(r"use ((?:crate|super|self)[^;]*);", file.read_text())
            paths = [re.sub(r"\s", "", use) for use in imported if re.search(rf"\b{name}\b", use)]
            module = lambda item: "::".join(p for p in item.file.relative_to(SRC).with_suffix("").parts if p != "mod")
            named = [item for item in found if any(module(item) in path for path in paths)]
            near = [item for item in found if item.file.parent == file.parent]
            found = own or named or near or found
        if len(found) != 1:
            raise SystemExit(f"{file}: {name} means {len(found)} serialized types")
        return found[0]

    def of(self, kind, file):
        """The schema of a type."""
        kind = re.sub(r"&?'\w+ ", "", kind.strip()).lstrip("&")
        inner = re.match(r"(?:\w+::)*(\w+)<(.*)>$", kind)
        last = kind.split("::")[-1]
        if last in TEXTS or inner and inner[1] == "Cow":
            return {"type": "string"}
        if last in UNSIGNED:
            return {"type": "integer", "minimum": 0}
        if last in SIGNED:
            return {"type": "integer"}
        if last in ("f64", "f32", "Num"):
            return {"type": "number"}
        if last == "bool":
            return {"type": "boolean"}
        if last in ("Value", "Fact"):
            return {}
        if last == "Id":
            return {"type": "string", "enum": catalogue()}
        if last == "Span":
            return {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}
        if last in ("Values", "Summary", "MetricDeltas"):
            return self.numbers(last)
        if kind.startswith("["):
            one, _, count = kind[1:-1].partition(";")
            count = count.strip()
            bounds = {"minItems": int(count), "maxItems": int(count)} if count.isdigit() else {}
            return {"type": "array", "items": self.of(one, file), **bounds}
        if kind.startswith("("):
            parts = [self.of(part, file) for part in split(kind[1:-1])]
            return {"type": "array", "prefixItems": parts, "minItems": len(parts), "maxItems": len(parts)}
        if inner and inner[1] in ("Option",):
            some = self.of(inner[2], file)
            plain = set(some) <= {"type", "minimum"} and isinstance(some.get("type"), str)
            return {**some, "type": [some["type"], "null"]} if plain else {"anyOf": [some, {"type": "null"}]}
        if inner and inner[1] in ("Vec", "BTreeSet"):
            return {"type": "array", "items": self.of(inner[2], file)}
        if inner and inner[1] in ("Box", "Arc"):
            return self.of(inner[2], file)
        if inner and inner[1] in ("BTreeMap", "Map"):
            return {"type": "object", "additionalProperties": self.of(split(inner[2])[1], file)}
        if inner:
            # A type of ours for one type of values: written out where it is used.
            return self.define(self.find(inner[1], file), inner[2])
        return self.reference(self.find(last, file))

    def reference(self, item):
        key = (item.file, item.name)
        if key not in self.names:
            taken = set(self.names.values())
            parts = [p for p in item.file.relative_to(SRC).with_suffix("").parts if p != "mod"]
            name = item.name if item.name not in taken else "_".join([*parts, item.name])
            self.names[key] = name
            self.definitions[name] = None
            self.definitions[name] = self.define(item)
        return {"$ref": f"#/$defs/{self.names[key]}"}

    def define(self, item, values=None):
        about = {"description": words(item.docs)} if item.docs else {}
        if serde(item.attributes, "into") == "String":
            return {**about, "type": "string"}
        if item.kind == "tuple":
            return {**about, **self.of(re.sub(r"^pub ", "", item.body[0].rstrip(",")), item.file)}
        if item.kind == "enum":
            rule = serde(item.attributes, "rename_all")
            variants = []
            for name, kind, docs, attributes in members(item):
                if kind or "(" in name or "{" in name:
                    raise SystemExit(f"{item.file}: {item.name}::{name} carries data")
                variants.append({"const": serde(attributes, "rename") or cased(name, rule), "description": words(docs)})
            return {**about, "oneOf": variants}
        properties, required = {}, []
        for name, kind, docs, attributes in members(item):
            if serde(attributes, "skip"):
                continue
            if serde(attributes, "flatten"):
                inner = self.of(kind, item.file)
                if "$ref" in inner:
                    inner = self.define(self.find(kind.split("::")[-1], item.file))
                properties.update(inner["properties"])
                required += inner["required"]
                continue
            name = serde(attributes, "rename") or name
            kind = re.sub(r"\bT\b", values, kind) if values else kind
            one = self.of(kind, item.file)
            if docs:
                one = {"description": words(docs), **one}
            properties[name] = one
            if not serde(attributes, "skip_serializing_if"):
                required.append(name)
        return {**about, "type": "object", "properties": properties, "required": required, "additionalProperties": False}

    def numbers(self, kind):
        """One property for each number, those with a dot in their path in objects."""
        units = {"Ns": "ns", "Bytes": "bytes", "Count": "a count", "Ratio": "a share"}
        one = {
            "Values": lambda: {"type": ["number", "null"]},
            "Summary": lambda: {"anyOf": [self.reference(self.find("Spread", SRC / "model/metric.rs")), {"type": "null"}]},
            "MetricDeltas": lambda: {"anyOf": [self.reference(self.find("Delta", SRC / "compare/mod.rs")), {"type": "null"}]},
        }[kind]
        whole = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
        for path, unit, definition in metrics():
            place, name = whole, path
            if "." in path:
                outer, name = path.split(".")
                empty = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
                place = whole["properties"].setdefault(outer, empty)
                if outer not in whole["required"]:
                    whole["required"].append(outer)
            place["properties"][name] = {"description": f"{definition}; {units[unit]}", **one()}
            place["required"].append(name)
        return whole


def documents():
    """Each document's name with the text of its schema."""
    types = {}
    for file in sorted(SRC.rglob("*.rs")):
        for item in items(file):
            types.setdefault(item.name, []).append(item)
    for name, (file, top) in DOCUMENTS.items():
        schema = Schema(types)
        item = next(i for i in types[top] if i.file == SRC / file)
        version = re.search(r'const SCHEMA: &str = "([^"]+)"', item.file.read_text())[1]
        whole = schema.define(item)
        whole["properties"]["schema"] = {"description": "Name and version of this document.", "const": version}
        head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": version}
        yield name, json.dumps({**head, **whole, "$defs": dict(sorted(schema.definitions.items()))}, indent=1, ensure_ascii=False) + "\n"


def main():
    stale = []
    for name, text in documents():
        path = ROOT / "docs/schema" / f"{name}.json"
        if "--check" in sys.argv[1:]:
            stale += [] if path.exists() and path.read_text() == text else [path.name]
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    if stale:
        raise SystemExit(f"docs/schema: {', '.join(stale)} not that of the source: run tests/json_schema/make.py")


main()
