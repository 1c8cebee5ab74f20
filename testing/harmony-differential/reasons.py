"""Which differences on purpose a schema gives a reason for."""

import json
import re


def reasons(schema, place="root"):
    """The headings of harmony-differences.md that a schema gives a reason for.

    `place` is `root`, `property`, `variant` or `items in a` one of these.
    """
    found = set()
    if schema is False:
        return {"`false` as a schema"}
    if not isinstance(schema, dict):
        return found
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else []
    variants = schema.get("oneOf")
    values = schema.get("enum")
    text = json.dumps({key: value for key, value in schema.items() if key != "nullable"})
    for key in ("anyOf", "allOf"):
        if schema.get(key):
            found.add(f"`{key}`")
            for part in schema[key]:
                found |= reasons(part, "items in a " + place)
    for key in ("$ref", "const", "prefixItems"):
        if key in schema:
            found.add(f"`{key}`")
    if values and (kind != "string" or any(not isinstance(value, str) for value in values)):
        found.add("An `enum` of anything but strings")
    if variants == []:
        found.add("No variants")
    own = ("properties", "items", "enum", "const", "additionalProperties", "anyOf", "allOf", "$ref", "type")
    if variants is not None and any(key in schema for key in own):
        found.add("Variants beside something else")
    if kind == "null":
        found.add("The type `null`")
    if not kind and any(key in schema for key in ("properties", "items", "additionalProperties")):
        found.add("No type")
    if schema.get("additionalProperties", False) is not False:
        found.add("`additionalProperties`")
    if "array" in kinds or ("object" in kinds and "properties" in schema) or any(not isinstance(name, str) for name in kinds):
        found.add("Lists and objects among types")
    if schema.get("nullable") is True:
        property_like = place == "property" and variants is None or place == "variant"
        if not property_like or "null" in text:
            found.add("`nullable`")
    told = [schema.get("title"), schema.get("description")]
    examples = schema.get("examples") or []
    if any(isinstance(word, str) and "\n" in word for word in told + examples):
        found.add("Comments of several lines")
    strings = [schema.get("default")] + list(values or []) + examples
    if any(isinstance(word, str) and json.dumps(word, ensure_ascii=False) != f'"{word}"' for word in strings):
        found.add("Strings")
    if any(not isinstance(example, str) for example in examples):
        found.add("Examples")
    if kind == "object":
        if place != "root" and "description" in schema:
            found.add("The description of an object")
        if "property" in place:
            found.add("The last brace of an object")
    for key, value in (schema.get("properties") or {}).items():
        if not re.fullmatch(r"[^\W\d]\w*", key):
            found.add("Keys")
        found |= reasons(value, "property")
    items = schema.get("items")
    if items is not None:
        several = isinstance(items, dict) and (
            len(items.get("enum") or []) > 1 or "oneOf" in items
            or isinstance(items.get("type"), list) or items.get("nullable") is True)
        if several:
            found.add("A list of several types")
        found |= reasons(items, place if place.startswith("items") else "items in a " + place)
    for index, variant in enumerate(variants or []):
        if not isinstance(variant, dict):
            found |= reasons(variant, "variant")
            continue
        if "oneOf" in variant:
            found.add("Variants of variants")
        if index == 0 and place == "property" and "description" in schema and "description" in variant:
            found.add("The first variant's description")
        if place == "root" and index + 1 == len(variants) and ("description" in variant or "default" in variant):
            found.add("A comment after the last variant")
        found |= reasons(variant, "variant")
    return found
