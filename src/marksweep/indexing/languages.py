"""The languages the indexer knows, as data: file names, a grammar, and what to look for in a tree.

A query names what it finds by captures:

    @function @class   a definition, and its name as @name
    @scope             something that only qualifies names, such as `impl Foo`
    @owner             the type a Go method belongs to
    @callee            the name that a call ends in
    @right_after       must begin where @callee ends: between tokens, a query skips punctuation
    @new               the name of a class that is instantiated
    @bare @local       any name alone; a name alone that is a variable, or not a use of one: @bare
                       is a call if no variable of the definition around it has its name
    @module            what an import names, as written
    @heir @base        a class, and what it inherits from or implements

A file whose language has no grammar is read as text.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import PurePosixPath

import msgspec

from marksweep.errors import UnknownName


class Language(msgspec.Struct, frozen=True):
    """How files of one language are recognised and read."""

    name: str
    extensions: tuple[str, ...] = ()
    grammar: str = ""
    """Module and function that return the grammar, as `module:function`; empty: read as text."""
    query: str = ""
    filenames: tuple[str, ...] = ()
    wrappers: frozenset[str] = frozenset()
    """Node types around a definition that belong to it, such as decorators and `export`."""
    comments: tuple[str, ...] = ("//", "/*", "*")
    """How a line of comment starts. Comments right above a definition belong to it."""
    capitals_are_classes: bool = False
    """Whether calling a capitalised name creates an object, by this language's convention."""
    methods_need_no_self: bool = False
    """Whether a plain call inside a class may mean one of its methods."""
    wants_semicolons: bool = False
    """Whether the grammar misses the end of a one-line body unless a semicolon is there."""


PYTHON = """
(function_definition name: (identifier) @name) @function
(class_definition name: (identifier) @name) @class
(call function: [(identifier) @callee (attribute attribute: (identifier) @callee)])
(import_statement name: [(dotted_name) @module (aliased_import name: (dotted_name) @module)])
(import_from_statement module_name: (_) @module)
(class_definition superclasses: (argument_list [(identifier) (attribute) (subscript)] @base)) @heir
"""

_ECMASCRIPT = """
(function_declaration name: (identifier) @name) @function
(generator_function_declaration name: (identifier) @name) @function
(method_definition name: (_) @name) @function
(variable_declarator name: (identifier) @name
    value: [(arrow_function) (function_expression) (generator_function)]) @function
(class_declaration name: (_) @name) @class
(call_expression function: [(identifier) @callee
    (member_expression property: [(property_identifier) (private_property_identifier)] @callee)])
(new_expression constructor: [(identifier) @new
    (member_expression property: (property_identifier) @new)])
(import_statement source: (string) @module)
(export_statement source: (string) @module)
(call_expression function: (identifier) @_require arguments: (arguments . (string) @module)
    (#eq? @_require "require"))
(call_expression function: (import) arguments: (arguments . (string) @module))
"""

_JSX = """
((jsx_opening_element name: (identifier) @callee) (#match? @callee "^[^a-z]"))
((jsx_self_closing_element name: (identifier) @callee) (#match? @callee "^[^a-z]"))
(jsx_opening_element name: (member_expression property: (_) @callee))
(jsx_self_closing_element name: (member_expression property: (_) @callee))
"""
"""An element is a call of its component. A name in lower case is one of HTML."""

JAVASCRIPT = (
    _ECMASCRIPT
    + _JSX
    + """
(class_declaration (class_heritage [(identifier) (member_expression)] @base)) @heir
(field_definition property: (_) @name value: [(arrow_function) (function_expression)]) @function
"""
)

TYPESCRIPT = (
    _ECMASCRIPT
    + """
(class_declaration (class_heritage
    (extends_clause value: [(identifier) (member_expression)] @base))) @heir
(class_declaration (class_heritage (implements_clause (_) @base))) @heir
(abstract_class_declaration (class_heritage
    (extends_clause value: [(identifier) (member_expression)] @base))) @heir
(abstract_class_declaration (class_heritage (implements_clause (_) @base))) @heir
(interface_declaration (extends_type_clause type: (_) @base)) @heir
(abstract_class_declaration name: (_) @name) @class
(interface_declaration name: (_) @name) @class
(enum_declaration name: (_) @name) @class
(type_alias_declaration name: (_) @name) @class
(function_signature name: (identifier) @name) @function
(public_field_definition name: (_) @name
    value: [(arrow_function) (function_expression)]) @function
(internal_module name: (_) @name) @scope
"""
)

GO = """
(function_declaration name: (identifier) @name) @function
(method_declaration receiver: (parameter_list (parameter_declaration type: [
    (type_identifier) @owner
    (pointer_type (type_identifier) @owner)
    (generic_type type: (type_identifier) @owner)
    (pointer_type (generic_type type: (type_identifier) @owner))]))
    name: (field_identifier) @name) @function
(type_declaration (type_spec name: (type_identifier) @name) @class)
(call_expression function: [(identifier) @callee
    (selector_expression field: (field_identifier) @callee)
    (index_expression operand: [(identifier) @callee
        (selector_expression field: (field_identifier) @callee)] index: (identifier))])
(type_conversion_expression type: (generic_type type: [(type_identifier) @callee
    (qualified_type name: (type_identifier) @callee)]))
(import_spec path: (_) @module)
(type_spec type: (struct_type (field_declaration_list
    (field_declaration !name type: (_) @base)))) @heir
(type_spec type: (interface_type (type_elem . (_) @base .))) @heir
"""

RUST = """
(function_item name: (identifier) @name) @function
(function_signature_item name: (identifier) @name) @function
(macro_definition name: (identifier) @name) @function
(struct_item name: (type_identifier) @name) @class
(enum_item name: (type_identifier) @name) @class
(union_item name: (type_identifier) @name) @class
(trait_item name: (type_identifier) @name) @class
(impl_item type: [(type_identifier) @name (generic_type type: (type_identifier) @name)
    (scoped_type_identifier name: (type_identifier) @name)]) @scope
(mod_item name: (identifier) @name body: (_)) @scope
(call_expression function: [(identifier) @callee
    (field_expression field: (field_identifier) @callee)
    (scoped_identifier name: (identifier) @callee)
    (generic_function function: [(identifier) @callee
        (field_expression field: (field_identifier) @callee)
        (scoped_identifier name: (identifier) @callee)])])
(macro_invocation macro: [(identifier) @callee (scoped_identifier name: (identifier) @callee)])
(token_tree (identifier) @callee . (token_tree . "(") @right_after)
(use_declaration argument: (_) @module)
(extern_crate_declaration name: (identifier) @module)
(impl_item trait: (_) @base) @heir
(trait_item bounds: (trait_bounds
    [(type_identifier) (generic_type) (scoped_type_identifier)] @base)) @heir
"""

JAVA = """
(method_declaration name: (identifier) @name) @function
(constructor_declaration name: (identifier) @name) @function
(compact_constructor_declaration name: (identifier) @name) @function
(class_declaration name: (identifier) @name) @class
(interface_declaration name: (identifier) @name) @class
(enum_declaration name: (identifier) @name) @class
(record_declaration name: (identifier) @name) @class
(annotation_type_declaration name: (identifier) @name) @class
(method_invocation name: (identifier) @callee)
(object_creation_expression type: [(type_identifier) @new
    (generic_type (type_identifier) @new) (scoped_type_identifier (type_identifier) @new .)])
(import_declaration [(scoped_identifier) (identifier)] @module)
(class_declaration superclass: (superclass (_) @base)) @heir
(class_declaration interfaces: (super_interfaces (type_list (_) @base))) @heir
(enum_declaration interfaces: (super_interfaces (type_list (_) @base))) @heir
(record_declaration interfaces: (super_interfaces (type_list (_) @base))) @heir
(interface_declaration (extends_interfaces (type_list (_) @base))) @heir
"""

C = """
(function_definition declarator: [
    (function_declarator declarator: (identifier) @name)
    (pointer_declarator declarator: (function_declarator declarator: (identifier) @name))
    (pointer_declarator declarator: (pointer_declarator
        declarator: (function_declarator declarator: (identifier) @name)))]) @function
(struct_specifier name: (type_identifier) @name body: (_)) @class
(union_specifier name: (type_identifier) @name body: (_)) @class
(enum_specifier name: (type_identifier) @name body: (_)) @class
(preproc_function_def name: (identifier) @name) @function
(call_expression function: [(identifier) @callee
    (field_expression field: (field_identifier) @callee)])
(preproc_include path: (_) @module)
"""

CPP = (
    C
    + """
(function_definition declarator: [
    (function_declarator declarator: [(field_identifier) (destructor_name) (operator_name)
        (qualified_identifier)] @name)
    (pointer_declarator declarator: (function_declarator
        declarator: [(field_identifier) (qualified_identifier)] @name))
    (reference_declarator (function_declarator
        declarator: [(identifier) (field_identifier) (operator_name)
            (qualified_identifier)] @name))]) @function
(class_specifier name: (type_identifier) @name body: (_)) @class
(namespace_definition name: (_) @name) @scope
(call_expression function: [
    (qualified_identifier name: (identifier) @callee)
    (template_function name: (identifier) @callee)
    (qualified_identifier name: (template_function name: (identifier) @callee))])
(new_expression type: [(type_identifier) @new
    (qualified_identifier name: (type_identifier) @new)])
(class_specifier (base_class_clause
    [(type_identifier) (qualified_identifier) (template_type)] @base)) @heir
(struct_specifier (base_class_clause
    [(type_identifier) (qualified_identifier) (template_type)] @base)) @heir
"""
)

C_SHARP = """
(method_declaration name: (identifier) @name) @function
(constructor_declaration name: (identifier) @name) @function
(local_function_statement name: (identifier) @name) @function
(property_declaration name: (identifier) @name) @function
(class_declaration name: (identifier) @name) @class
(interface_declaration name: (identifier) @name) @class
(record_declaration name: (identifier) @name) @class
(struct_declaration name: (identifier) @name) @class
(enum_declaration name: (identifier) @name) @class
(namespace_declaration name: (_) @name) @scope
(invocation_expression function: [(identifier) @callee (generic_name (identifier) @callee)
    (member_access_expression name: [(identifier) @callee (generic_name (identifier) @callee)])
    (conditional_access_expression (member_binding_expression
        name: [(identifier) @callee (generic_name (identifier) @callee)]))])
(object_creation_expression type: [(identifier) @new (generic_name (identifier) @new)
    (qualified_name name: [(identifier) @new (generic_name (identifier) @new)])])
(using_directive [(identifier) (qualified_name)] @module .)
(class_declaration (base_list [(identifier) (generic_name) (qualified_name)] @base)) @heir
(interface_declaration (base_list [(identifier) (generic_name) (qualified_name)] @base)) @heir
(record_declaration (base_list [(identifier) (generic_name) (qualified_name)
    (primary_constructor_base_type)] @base)) @heir
(struct_declaration (base_list [(identifier) (generic_name) (qualified_name)] @base)) @heir
"""

PHP = """
(function_definition name: (name) @name) @function
(method_declaration name: (name) @name) @function
(class_declaration name: (name) @name) @class
(interface_declaration name: (name) @name) @class
(trait_declaration name: (name) @name) @class
(enum_declaration name: (name) @name) @class
(function_call_expression function: [(name) @callee (qualified_name (name) @callee .)])
(member_call_expression name: (name) @callee)
(nullsafe_member_call_expression name: (name) @callee)
(scoped_call_expression name: (name) @callee)
(object_creation_expression [(name) @new (qualified_name (name) @new .)])
(namespace_use_declaration (namespace_use_clause . [(name) (qualified_name)] @module))
(namespace_use_declaration (namespace_name) @module body: (namespace_use_group))
(require_once_expression (string) @module)
(require_expression (string) @module)
(include_expression (string) @module)
(include_once_expression (string) @module)
(class_declaration (base_clause (_) @base)) @heir
(class_declaration (class_interface_clause (_) @base)) @heir
(class_declaration body: (declaration_list (use_declaration (_) @base))) @heir
(interface_declaration (base_clause (_) @base)) @heir
(enum_declaration (class_interface_clause (_) @base)) @heir
"""

RUBY = """
(method name: (_) @name) @function
(singleton_method name: (_) @name) @function
(class name: (_) @name) @class
(module name: (_) @name) @scope
(call receiver: [(constant) @new (scope_resolution name: (constant) @new)]
    method: (identifier) @_new (#eq? @_new "new"))
(call method: (identifier) @callee
    (#not-match? @callee "^(new|require|require_relative|include|extend|prepend)$"))
(call method: (identifier) @_require arguments: (argument_list (string) @module)
    (#match? @_require "^require(_relative)?$"))
((identifier) @bare
    (#not-match? @bare "^(new|require|require_relative|include|extend|prepend|it|_[1-9])$"))
(_ left: (identifier) @local)
(left_assignment_list (identifier) @local)
(destructured_left_assignment (identifier) @local)
(rest_assignment (identifier) @local)
(method_parameters (identifier) @local)
(block_parameters (identifier) @local)
(lambda_parameters (identifier) @local)
(destructured_parameter (identifier) @local)
(_ name: (identifier) @local)
(alias (identifier) @local)
(undef (identifier) @local)
(exception_variable (identifier) @local)
(_ pattern: (identifier) @local)
(array_pattern (identifier) @local)
(find_pattern (identifier) @local)
(alternative_pattern (identifier) @local)
(keyword_pattern value: (identifier) @local)
(keyword_pattern key: (hash_key_symbol) @local !value)
(class superclass: (superclass (_) @base)) @heir
(class body: (body_statement (call method: (identifier) @_include
    arguments: (argument_list [(constant) (scope_resolution)] @base)
    (#match? @_include "^(include|extend|prepend)$")))) @heir
"""

KOTLIN = """
(function_declaration name: (identifier) @name) @function
(class_declaration name: (identifier) @name) @class
(object_declaration name: (identifier) @name) @class
(call_expression . (identifier) @callee)
(call_expression . (navigation_expression (identifier) @callee .))
(import (qualified_identifier) @module)
(class_declaration (delegation_specifiers (delegation_specifier
    [(user_type) @base (constructor_invocation) @base
        (explicit_delegation . (user_type) @base)]))) @heir
(object_declaration (delegation_specifiers (delegation_specifier
    [(user_type) @base (constructor_invocation) @base
        (explicit_delegation . (user_type) @base)]))) @heir
"""

SWIFT = """
(function_declaration name: (simple_identifier) @name) @function
(protocol_function_declaration name: (simple_identifier) @name) @function
(init_declaration "init" @name) @function
(class_declaration name: (type_identifier) @name) @class
(class_declaration name: (user_type) @name) @scope
(protocol_declaration name: (type_identifier) @name) @class
(call_expression . (simple_identifier) @callee)
(call_expression . (navigation_expression suffix: (navigation_suffix
    suffix: (simple_identifier) @callee)))
(constructor_expression constructed_type: (user_type (type_identifier) @new))
(import_declaration (identifier) @module)
(class_declaration (inheritance_specifier inherits_from: (_) @base)) @heir
(protocol_declaration (inheritance_specifier inherits_from: (_) @base)) @heir
"""

SCALA = """
(function_definition name: (_) @name) @function
(function_declaration name: (_) @name) @function
(class_definition name: (identifier) @name) @class
(trait_definition name: (identifier) @name) @class
(object_definition name: (identifier) @name) @class
(enum_definition name: (identifier) @name) @class
(call_expression function: [(identifier) @callee (field_expression field: (identifier) @callee)
    (generic_function function: [(identifier) @callee
        (field_expression field: (identifier) @callee)])])
(instance_expression [(type_identifier) @new (generic_type type: (type_identifier) @new)
    (stable_type_identifier (type_identifier) @new .)])
(import_declaration) @module
(class_definition extend: (extends_clause
    [(type_identifier) (generic_type) (stable_type_identifier)] @base)) @heir
(trait_definition extend: (extends_clause
    [(type_identifier) (generic_type) (stable_type_identifier)] @base)) @heir
(object_definition extend: (extends_clause
    [(type_identifier) (generic_type) (stable_type_identifier)] @base)) @heir
(enum_definition extend: (extends_clause
    [(type_identifier) (generic_type) (stable_type_identifier)] @base)) @heir
"""

_EXPORT = frozenset({"export_statement", "lexical_declaration", "variable_declaration"})

LANGUAGES: tuple[Language, ...] = (
    Language(
        "Python",
        (".py", ".pyi", ".pyw"),
        "tree_sitter_python:language",
        PYTHON,
        filenames=("SConstruct", "SConscript"),
        wrappers=frozenset({"decorated_definition"}),
        comments=("#",),
        capitals_are_classes=True,
    ),
    Language(
        "JavaScript",
        (".js", ".mjs", ".cjs", ".jsx"),
        "tree_sitter_javascript:language",
        JAVASCRIPT,
        wrappers=_EXPORT,
    ),
    Language(
        "TypeScript",
        (".ts", ".mts", ".cts"),
        "tree_sitter_typescript:language_typescript",
        TYPESCRIPT,
        wrappers=_EXPORT,
    ),
    Language(
        "TSX", (".tsx",), "tree_sitter_typescript:language_tsx", TYPESCRIPT + _JSX, wrappers=_EXPORT
    ),
    Language(
        "Go", (".go",), "tree_sitter_go:language", GO, wrappers=frozenset({"type_declaration"})
    ),
    Language("Rust", (".rs",), "tree_sitter_rust:language", RUST, comments=("//", "/*", "*", "#[")),
    Language("Java", (".java",), "tree_sitter_java:language", JAVA, methods_need_no_self=True),
    Language(
        "C", (".c", ".h"), "tree_sitter_c:language", C, wrappers=frozenset({"type_definition"})
    ),
    Language(
        "C++",
        (".cc", ".cpp", ".cxx", ".c++", ".hh", ".hpp", ".hxx", ".ipp", ".tpp"),
        "tree_sitter_cpp:language",
        CPP,
        wrappers=frozenset({"type_definition", "template_declaration"}),
        capitals_are_classes=True,
        methods_need_no_self=True,
    ),
    Language("C#", (".cs",), "tree_sitter_c_sharp:language", C_SHARP, methods_need_no_self=True),
    Language(
        "PHP", (".php",), "tree_sitter_php:language_php", PHP, comments=("//", "/*", "*", "#")
    ),
    Language(
        "Ruby",
        (".rb", ".rake"),
        "tree_sitter_ruby:language",
        RUBY,
        filenames=("Rakefile", "Gemfile"),
        comments=("#",),
        methods_need_no_self=True,
    ),
    Language(
        "Kotlin",
        (".kt", ".kts"),
        "tree_sitter_kotlin:language",
        KOTLIN,
        capitals_are_classes=True,
        methods_need_no_self=True,
        wants_semicolons=True,
    ),
    Language(
        "Swift",
        (".swift",),
        "tree_sitter_swift:language",
        SWIFT,
        capitals_are_classes=True,
        methods_need_no_self=True,
    ),
    Language(
        "Scala",
        (".scala", ".sc"),
        "tree_sitter_scala:language",
        SCALA,
        capitals_are_classes=True,
        methods_need_no_self=True,
    ),
    Language("Markdown", (".md", ".markdown")),
    Language("reStructuredText", (".rst",)),
    Language("JSON", (".json", ".jsonl")),
    Language("YAML", (".yaml", ".yml")),
    Language("TOML", (".toml",)),
    Language("HTML", (".html", ".htm")),
    Language("CSS", (".css", ".scss", ".less")),
    Language("SQL", (".sql",)),
    Language("Shell", (".sh", ".bash", ".zsh")),
    Language("Makefile", (".mk",), filenames=("Makefile", "GNUmakefile")),
)

TEXT = Language("Text")
"""Any file that no other language matches."""

_BY_NAME = {language.name.casefold(): language for language in (*LANGUAGES, TEXT)}
_BY_EXTENSION = {end: language for language in LANGUAGES for end in language.extensions}
_BY_FILENAME = {name: language for language in LANGUAGES for name in language.filenames}
_ALSO = {
    "cpp": ("c++",),
    "csharp": ("c#",),
    "cs": ("c#",),
    "golang": ("go",),
    "js": ("javascript",),
    "py": ("python",),
    "rs": ("rust",),
    "ts": ("typescript", "tsx"),
    "typescript": ("typescript", "tsx"),
}
"""Aliases of a language in a filter. TypeScript means both of its grammars."""


def language_of(path: str) -> Language:
    """Return a file's language by its name alone."""
    name = PurePosixPath(path).name
    if name in _BY_FILENAME:
        return _BY_FILENAME[name]
    dot = name.rfind(".")
    return _BY_EXTENSION.get(name[dot:].lower(), TEXT) if dot > 0 else TEXT


def named(name: str) -> Language:
    """Look up a language by the name in its rows; an unknown one is text."""
    return _BY_NAME.get(name.casefold(), TEXT)


def chosen(names: Collection[str]) -> frozenset[str]:
    """Turn the words of a filter into language names; an empty filter means every language."""
    picked: set[str] = set()
    for word in names:
        for name in _ALSO.get(word.casefold(), (word.casefold(),)):
            if name not in _BY_NAME:
                known = ", ".join(language.name for language in (*LANGUAGES, TEXT))
                raise UnknownName(
                    f"no language named {word!r}; known are {known}. "
                    "Leave the filter out to index every file."
                )
            picked.add(_BY_NAME[name].name)
    return frozenset(picked)
