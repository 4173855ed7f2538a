"""Which grammar reads which file, and what counts as a symbol in it: one short query a language, our own.

Each pattern captures the whole definition under the name of its kind, and its name as `@name`. Where several match one
node, the first one counts.
"""

from __future__ import annotations

from dataclasses import dataclass

PYTHON = """
(class_definition name: (identifier) @name) @class
(function_definition name: (identifier) @name) @def
(module (expression_statement (assignment left: (identifier) @name) @variable))
"""
JAVASCRIPT = """
(class_declaration name: (_) @name) @class
(function_declaration name: (identifier) @name) @function
(generator_function_declaration name: (identifier) @name) @function
(method_definition name: (_) @name) @method
(lexical_declaration (variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression)]) @function)
(program (lexical_declaration (variable_declarator name: (identifier) @name) @const))
(program (export_statement (lexical_declaration (variable_declarator name: (identifier) @name) @const)))
"""
TYPESCRIPT = (
    JAVASCRIPT
    + """
(abstract_class_declaration name: (_) @name) @class
(interface_declaration name: (_) @name) @interface
(type_alias_declaration name: (_) @name) @type
(enum_declaration name: (_) @name) @enum
(internal_module name: (_) @name) @namespace
(abstract_method_signature name: (_) @name) @method
(function_signature name: (_) @name) @function
"""
)
GO = """
(function_declaration name: (identifier) @name) @func
(method_declaration name: (field_identifier) @name) @method
(type_spec name: (type_identifier) @name) @type
(type_alias name: (type_identifier) @name) @type
(source_file (const_declaration (const_spec name: (identifier) @name) @const))
(source_file (var_declaration (var_spec name: (identifier) @name) @var))
"""
RUST = """
(function_item name: (identifier) @name) @fn
(function_signature_item name: (identifier) @name) @fn
(struct_item name: (type_identifier) @name) @struct
(enum_item name: (type_identifier) @name) @enum
(union_item name: (type_identifier) @name) @union
(trait_item name: (type_identifier) @name) @trait
(impl_item type: (_) @name) @impl
(mod_item name: (identifier) @name) @mod
(macro_definition name: (identifier) @name) @macro
(type_item name: (type_identifier) @name) @type
(const_item name: (identifier) @name) @const
(static_item name: (identifier) @name) @static
"""
JAVA = """
(class_declaration name: (identifier) @name) @class
(interface_declaration name: (identifier) @name) @interface
(enum_declaration name: (identifier) @name) @enum
(record_declaration name: (identifier) @name) @record
(annotation_type_declaration name: (identifier) @name) @annotation
(method_declaration name: (identifier) @name) @method
(constructor_declaration name: (identifier) @name) @constructor
"""
C = """
(function_definition declarator: (function_declarator declarator: (_) @name)) @function
(function_definition declarator: (pointer_declarator declarator: (function_declarator declarator: (_) @name))) @function
(struct_specifier name: (_) @name body: (_)) @struct
(union_specifier name: (_) @name body: (_)) @union
(enum_specifier name: (_) @name body: (_)) @enum
(type_definition declarator: (type_identifier) @name) @typedef
(translation_unit (preproc_def name: (identifier) @name) @define)
(preproc_function_def name: (identifier) @name) @define
"""
CPP = (
    C
    + """
(function_definition declarator: (reference_declarator (function_declarator declarator: (_) @name))) @function
(class_specifier name: (_) @name body: (_)) @class
(namespace_definition name: (_) @name) @namespace
(alias_declaration name: (type_identifier) @name) @using
(concept_definition name: (identifier) @name) @concept
"""
)
BASH = """
(function_definition name: (word) @name) @function
"""
RUBY = """
(class name: (_) @name) @class
(module name: (_) @name) @module
(method name: (_) @name) @def
(singleton_method name: (_) @name) @def
(program (assignment left: (constant) @name) @constant)
"""


@dataclass(frozen=True, slots=True)
class Grammar:
    """Where a grammar comes from: module and function of its package; and the query over it."""

    name: str
    module: str
    query: str
    function: str = "language"


_GRAMMARS: tuple[tuple[Grammar, str], ...] = (
    (Grammar("python", "tree_sitter_python", PYTHON), "py pyi pyw"),
    (Grammar("javascript", "tree_sitter_javascript", JAVASCRIPT), "js jsx mjs cjs"),
    (Grammar("typescript", "tree_sitter_typescript", TYPESCRIPT, "language_typescript"), "ts mts cts"),
    (Grammar("tsx", "tree_sitter_typescript", TYPESCRIPT, "language_tsx"), "tsx"),
    (Grammar("go", "tree_sitter_go", GO), "go"),
    (Grammar("rust", "tree_sitter_rust", RUST), "rs"),
    (Grammar("java", "tree_sitter_java", JAVA), "java"),
    (Grammar("c", "tree_sitter_c", C), "c"),
    # A header may be either; the C++ grammar reads C as well, not the other way round.
    (Grammar("cpp", "tree_sitter_cpp", CPP), "cc cpp cxx c++ h hh hpp hxx ipp"),
    (Grammar("bash", "tree_sitter_bash", BASH), "sh bash"),
    (Grammar("ruby", "tree_sitter_ruby", RUBY), "rb rake gemspec"),
)
BY_EXTENSION = {extension: grammar for grammar, extensions in _GRAMMARS for extension in extensions.split()}
BY_PROGRAM = {"python": "py", "python3": "py", "node": "js", "sh": "sh", "bash": "sh", "dash": "sh", "ruby": "rb"}


def grammar_for(path: str, head: bytes) -> Grammar | None:
    """By the name's extension, else by the `#!` line; None when no grammar reads it."""
    name = path.rpartition("/")[2]
    stem, dot, extension = name.rpartition(".")
    if dot and stem:
        return BY_EXTENSION.get(extension.lower())
    first = head.partition(b"\n")[0].decode("utf-8", "replace")
    if not first.startswith("#!"):
        return None
    words = [word.rpartition("/")[2] for word in first[2:].split()]
    program = next((word for word in words if word != "env" and not word.startswith("-")), "")
    return BY_EXTENSION.get(BY_PROGRAM.get(program, ""))
