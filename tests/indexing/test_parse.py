from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marksweep.errors import UnknownName
from marksweep.indexing import parse as parsing
from marksweep.indexing.chunking import MAX_CHUNK_CHARS, MAX_CHUNK_LINES
from marksweep.indexing.languages import LANGUAGES, chosen, language_of
from marksweep.indexing.parse import absolute
from marksweep.stores.graph.nouns import Memory, Record
from tests.graph.graphs import START


def memory(path: str) -> Memory:
    return Memory(memory_id="m", workspace_id="w", source="s", created_at=START, relative_path=path)


def parse(path: str, content: bytes) -> Record:
    return parsing.parse(memory(path), content)


def parse_text(path: str, content: bytes) -> Record:
    return parsing.parse_text(memory(path), content)


def symbols(parsed: Record) -> list[tuple[str, str, int, int]]:
    return [(p.kind, p.symbol, p.start_line, p.end_line) for p in parsed.chunks]


def ties(parsed: Record) -> set[str]:
    names = {each.entity_id: each.name for each in parsed.entities}
    return {f"{names[t.source_id]} {t.relation} {names[t.target_id]}" for t in parsed.relations}


def names(parsed: Record) -> set[str]:
    return {f"{each.kind} {each.name}" for each in parsed.entities}


def defined(parsed: Record) -> tuple[object, object]:
    return parsed.memory.metadata["functions"], parsed.memory.metadata["classes"]


class Sample(NamedTuple):
    path: str
    source: str
    symbols: list[tuple[str, str, int, int]]
    ties: set[str]
    functions: int
    classes: int


SAMPLES = [
    Sample(
        "shop.py",
        '''import os
from .prices import total as t

LIMIT = 3

# Holds what is bought.
@final
class Cart(Base):
    """A cart."""

    # Adds one.
    def add(self, item):
        self.check(item)
        def inner():
            return deep()
        return t(inner())

    size = 3

    def check(self, item): os.fsync(item)

Cart().add(1)
''',
        [
            ("block", "", 1, 4),
            ("class", "Cart", 6, 9),
            ("function", "Cart.add", 11, 16),
            ("class", "Cart", 18, 18),
            ("function", "Cart.check", 20, 20),
            ("block", "", 22, 22),
        ],
        {
            "shop.py imports os",
            "shop.py imports prices",
            "Cart inherits Base",
            "Cart.add calls Cart.check",
            "Cart.add.inner calls deep",
            "Cart.add calls t",
            "Cart.add calls inner",
            "Cart.check calls fsync",
            "shop.py calls Cart",
            "shop.py calls add",
        },
        3,
        1,
    ),
    Sample(
        "shop.js",
        """import { total } from './prices';
const fs = require("fs");
export class Cart {
  add(item) { this.check(item); }
  check(item) { return new Price(item); }
}
// Pays.
export const pay = async (cart) => {
  total(cart);
};
function* ids() { yield 1; }
""",
        [
            ("block", "", 1, 2),
            ("class", "Cart", 3, 3),
            ("function", "Cart.add", 4, 4),
            ("function", "Cart.check", 5, 5),
            ("class", "Cart", 6, 6),
            ("function", "pay", 7, 10),
            ("function", "ids", 11, 11),
        ],
        {
            "shop.js imports prices",
            "shop.js imports fs",
            "shop.js calls require",
            "Cart.add calls Cart.check",
            "Cart.check calls Price",
            "pay calls total",
        },
        4,
        1,
    ),
    Sample(
        "shop.ts",
        """import type { Item } from "./item";
interface Priced { price(): number }
export enum Kind { A, B }
export abstract class Cart<T> {
  add(item: T): void { this.check(item); }
  private check(item: T) { log(item); }
}
namespace shop {
  export function open(): void { start(); }
}
""",
        [
            ("block", "", 1, 1),
            ("class", "Priced", 2, 2),
            ("class", "Kind", 3, 3),
            ("class", "Cart", 4, 4),
            ("function", "Cart.add", 5, 5),
            ("function", "Cart.check", 6, 6),
            ("class", "Cart", 7, 7),
            ("block", "shop", 8, 8),
            ("function", "shop.open", 9, 9),
            ("block", "shop", 10, 10),
        ],
        {
            "shop.ts imports item",
            "Cart.add calls Cart.check",
            "Cart.check calls log",
            "shop.open calls start",
        },
        3,
        3,
    ),
    Sample(
        "shop.tsx",
        "export const Cart = () => <Row onClick={() => go()} />;\n",
        [("function", "Cart", 1, 1)],
        {"Cart calls Row", "Cart calls go"},
        1,
        0,
    ),
    Sample(
        "shop.go",
        """package shop

import (
	"fmt"
	m "math/rand"
)

// Cart holds items.
type Cart struct{ n int }

// Add adds.
func (c *Cart) Add() { fmt.Println(c.n); check() }

func check() { m.Int() }
""",
        [
            ("block", "", 1, 6),
            ("class", "Cart", 8, 9),
            ("function", "Cart.Add", 11, 12),
            ("function", "check", 14, 14),
        ],
        {
            "shop.go imports fmt",
            "shop.go imports math/rand",
            "Cart.Add calls Println",
            "Cart.Add calls check",
            "check calls Int",
        },
        2,
        1,
    ),
    Sample(
        "shop.rs",
        """use std::collections::{HashMap, HashSet};
use crate::price as p;

/// Holds items.
#[derive(Debug)]
pub struct Cart { n: u32 }

impl Cart {
    pub fn add(&self) { self.check(); Self::make(); }
    fn check(&self) { println!("x"); }
    fn make() { p::total::<u8>() }
}
""",
        [
            ("block", "", 1, 2),
            ("class", "Cart", 4, 6),
            ("block", "Cart", 8, 8),
            ("function", "Cart.add", 9, 9),
            ("function", "Cart.check", 10, 10),
            ("function", "Cart.make", 11, 11),
            ("block", "Cart", 12, 12),
        ],
        {
            "shop.rs imports std::collections",
            "shop.rs imports crate::price",
            "Cart.add calls Cart.check",
            "Cart.add calls Cart.make",
            "Cart.check calls println",
            "Cart.make calls total",
        },
        3,
        1,
    ),
    Sample(
        "Cart.java",
        """package shop;
import java.util.List;

public class Cart {
    Cart() { init(); }
    /** Adds. */
    void add(int x) { check(x); new Price<>(x); }
    void check(int x) { list.remove(x); }
    enum Kind { A }
}
""",
        [
            ("block", "", 1, 2),
            ("class", "Cart", 4, 4),
            ("function", "Cart.Cart", 5, 5),
            ("function", "Cart.add", 6, 7),
            ("function", "Cart.check", 8, 8),
            ("class", "Cart.Kind", 9, 9),
            ("class", "Cart", 10, 10),
        ],
        {
            "Cart.java imports java.util.List",
            "Cart.Cart calls init",
            "Cart.add calls Cart.check",
            "Cart.add calls Price",
            "Cart.check calls remove",
        },
        3,
        2,
    ),
    Sample(
        "shop.c",
        """#include <stdio.h>
#include "price.h"

typedef struct cart { int n; } cart_t;

/* Makes one. */
static cart_t *make(void) { return alloc(1); }

int main(int argc, char **argv) {
    make();
    printf("x");
}
""",
        [
            ("block", "", 1, 2),
            ("class", "cart", 4, 4),
            ("function", "make", 6, 7),
            ("function", "main", 9, 12),
        ],
        {
            "shop.c imports stdio.h",
            "shop.c imports price.h",
            "make calls alloc",
            "main calls make",
            "main calls printf",
        },
        2,
        1,
    ),
    Sample(
        "shop.cpp",
        """#include <vector>
namespace shop {
class Cart {
 public:
  void add() { check(); std::sort(a, b); }
  void check();
};
}
void shop::Cart::check() { new Price(); total<int>(); }
template <typename T>
T& same(T& x) { return x; }
""",
        [
            ("block", "", 1, 1),
            ("block", "shop", 2, 2),
            ("class", "shop.Cart", 3, 4),
            ("function", "shop.Cart.add", 5, 5),
            ("class", "shop.Cart", 6, 7),
            ("block", "shop", 8, 8),
            ("function", "shop.Cart.check", 9, 9),
            ("function", "same", 10, 11),
        ],
        {
            "shop.cpp imports vector",
            "shop.Cart.add calls shop.Cart.check",
            "shop.Cart.add calls sort",
            "shop.Cart.check calls Price",
            "shop.Cart.check calls total",
        },
        3,
        1,
    ),
    Sample(
        "shop.cs",
        """using System.Text;
using Log = My.Logging;
namespace Shop.Core;
public interface ICart : IThing { void Add(int x); }
public record Price(int V);
public enum Kind { A }
public struct P { }
public class Cart : Base<int>, ICart {
  public Cart() { Init(); }
  public void Add(int x) { this.Check(x); var p = new Price(x); Console.WriteLine(p); Foo<int>(); }
  int Prop { get { return Get(); } }
}
""",
        [
            ("block", "", 1, 3),
            ("class", "ICart", 4, 4),
            ("class", "Price", 5, 5),
            ("class", "Kind", 6, 6),
            ("class", "P", 7, 7),
            ("class", "Cart", 8, 8),
            ("function", "Cart.Cart", 9, 9),
            ("function", "Cart.Add", 10, 10),
            ("function", "Cart.Prop", 11, 11),
            ("class", "Cart", 12, 12),
        ],
        {
            "Cart inherits Base",
            "Cart inherits ICart",
            "Cart.Add calls Check",
            "Cart.Add calls Foo",
            "Cart.Add calls Price",
            "Cart.Add calls WriteLine",
            "Cart.Cart calls Init",
            "Cart.Prop calls Get",
            "ICart inherits IThing",
            "shop.cs imports My.Logging",
            "shop.cs imports System.Text",
        },
        4,
        5,
    ),
    Sample(
        "shop.php",
        r"""<?php
namespace Shop;
use Shop\Models\Price;
use function Foo\bar;
require_once 'lib.php';
interface ICart extends A, B {}
trait T { function t() {} }
enum E: string { case A = 'a'; }
abstract class Cart extends Models\Base implements ICart {
  use T;
  public function add($x) { $this->check($x); $p = new Price($x); O::stat(); \strlen(log_it($p)); }
}
function top() { return new \Shop\Cart(); }
""",
        [
            ("block", "", 1, 5),
            ("class", "ICart", 6, 6),
            ("class", "T", 7, 7),
            ("class", "E", 8, 8),
            ("class", "Cart", 9, 10),
            ("function", "Cart.add", 11, 11),
            ("class", "Cart", 12, 12),
            ("function", "top", 13, 13),
        ],
        {
            "Cart inherits Base",
            "Cart inherits ICart",
            "Cart inherits T",
            "Cart.add calls Price",
            "Cart.add calls check",
            "Cart.add calls log_it",
            "Cart.add calls stat",
            "Cart.add calls strlen",
            "ICart inherits A",
            "ICart inherits B",
            "shop.php imports Foo\\bar",
            "shop.php imports Shop\\Models\\Price",
            "shop.php imports lib.php",
            "top calls Cart",
        },
        3,
        4,
    ),
    Sample(
        "shop.rb",
        """require 'json'
require_relative 'lib/x'
module Shop
  class Cart < Models::Base
    include Comparable
    def add(x)
      check(x)
      self.check x
      p = Price.new(x)
      puts p, tax
    end
    def self.make
      new
    end
  end
end
def top
  Shop::Cart.make
end
""",
        [
            ("block", "", 1, 2),
            ("block", "Shop", 3, 3),
            ("class", "Shop.Cart", 4, 5),
            ("function", "Shop.Cart.add", 6, 11),
            ("function", "Shop.Cart.make", 12, 14),
            ("class", "Shop.Cart", 15, 15),
            ("block", "Shop", 16, 16),
            ("function", "top", 17, 19),
        ],
        {
            "Shop.Cart inherits Base",
            "Shop.Cart inherits Comparable",
            "Shop.Cart.add calls Price",
            "Shop.Cart.add calls check",
            "Shop.Cart.add calls puts",
            "Shop.Cart.add calls tax",
            "shop.rb imports json",
            "shop.rb imports lib/x",
            "top calls make",
        },
        3,
        1,
    ),
    Sample(
        "shop.kt",
        """package shop

import java.util.List
import shop.models.*

interface ICart : Thing

data class Price(val v: Int)

open class Cart(val x: Int) : Base<Int>(x), ICart {
    fun add(x: Int) {
        this.check(x)
        val p = Price(x)
        println(p)
        list.forEach { go() }
    }

    companion object {
        fun make() = Cart(1)
    }
}

object Single {
    fun a() {}
}

fun top() = Cart.make()
""",
        [
            ("block", "", 1, 4),
            ("class", "ICart", 6, 6),
            ("class", "Price", 8, 8),
            ("class", "Cart", 10, 10),
            ("function", "Cart.add", 11, 16),
            ("class", "Cart", 18, 18),
            ("function", "Cart.make", 19, 19),
            ("class", "Cart", 20, 21),
            ("class", "Single", 23, 23),
            ("function", "Single.a", 24, 24),
            ("class", "Single", 25, 25),
            ("function", "top", 27, 27),
        ],
        {
            "Cart inherits Base",
            "Cart inherits ICart",
            "Cart.add calls Price",
            "Cart.add calls check",
            "Cart.add calls forEach",
            "Cart.add calls go",
            "Cart.add calls println",
            "Cart.make calls Cart",
            "ICart inherits Thing",
            "shop.kt imports java.util.List",
            "shop.kt imports shop.models",
            "top calls make",
        },
        4,
        4,
    ),
    Sample(
        "shop.swift",
        """import Foundation
protocol ICart: Thing { func add(_ x: Int) }
struct Price { let v: Int }
enum K { case a }
class Cart: Base, ICart {
  init() { setup() }
  func add(_ x: Int) { self.check(x); let p = Price(v: x); print(p) }
}
extension Cart: Codable { func more() { add(1) } }
func top() { Cart().add(1) }
""",
        [
            ("block", "", 1, 1),
            ("class", "ICart", 2, 2),
            ("class", "Price", 3, 3),
            ("class", "K", 4, 4),
            ("class", "Cart", 5, 5),
            ("function", "Cart.init", 6, 6),
            ("function", "Cart.add", 7, 7),
            ("class", "Cart", 8, 8),
            ("block", "Cart", 9, 9),
            ("function", "top", 10, 10),
        ],
        {
            "Cart inherits Base",
            "Cart inherits Codable",
            "Cart inherits ICart",
            "Cart.add calls Price",
            "Cart.add calls check",
            "Cart.add calls print",
            "Cart.init calls setup",
            "Cart.more calls Cart.add",
            "ICart inherits Thing",
            "shop.swift imports Foundation",
            "top calls Cart",
            "top calls add",
        },
        5,
        4,
    ),
    Sample(
        "shop.scala",
        """package shop
import scala.util.Try
import models.{Price, Base}
trait ICart extends Thing
object Single { def a = 1 }
case class P(v: Int)
enum K { case A }
class Cart(x: Int) extends Base[Int](x) with ICart {
  def add(x: Int): Unit = { this.check(x); val p = new Price(x); println(p); go[Int](O.make()) }
}
""",
        [
            ("block", "", 1, 3),
            ("class", "ICart", 4, 4),
            ("class", "Single", 5, 5),
            ("class", "P", 6, 6),
            ("class", "K", 7, 7),
            ("class", "Cart", 8, 8),
            ("function", "Cart.add", 9, 9),
            ("class", "Cart", 10, 10),
        ],
        {
            "Cart inherits Base",
            "Cart inherits ICart",
            "Cart.add calls Price",
            "Cart.add calls check",
            "Cart.add calls go",
            "Cart.add calls make",
            "Cart.add calls println",
            "ICart inherits Thing",
            "shop.scala imports models",
            "shop.scala imports scala.util.Try",
        },
        2,
        5,
    ),
]


INHERITS = {
    "x.ts": (
        "interface A extends B, C<D> {}\n"
        "export class E extends ns.F<G> implements A {}\nabstract class H extends E {}\n",
        {"A B", "A C", "E A", "E F", "H E"},
    ),
    "x.js": ("class A extends B {}\nclass C extends ns.D { m() {} }\n", {"A B", "C D"}),
    "x.go": (
        "package p\ntype A struct {\n\tB\n\t*C\n\tp.D\n\tx int\n}\n"
        "type I interface {\n\tJ\n\tp.K\n\tm()\n\t~int | string\n}\n",
        {"A B", "A C", "A D", "I J", "I K"},
    ),
    "x.cs": ("record A(int X) : B(X), C;\nclass D : E<int> {}\n", {"A B", "A C", "D E"}),
    "x.kt": ("class A(b: B) : C(1), D by b, E\nobject F : G\n", {"A C", "A D", "A E", "F G"}),
    "x.scala": ("enum A extends B with C { case D }\n", {"A B", "A C"}),
    "x.rs": (
        "trait A: B + p::C {}\nstruct S;\nimpl A for S { fn f(&self) {} }\nimpl<T> D<T> for S {}\n",
        {"A B", "A C", "S A", "S D"},
    ),
    "X.java": (
        "class A extends p.B<C> implements D, E<F> {}\ninterface G extends H {}\n"
        "enum I implements J { X }\nrecord K(int x) implements L {}\n",
        {"A B", "A D", "A E", "G H", "I J", "K L"},
    ),
    "x.cpp": (
        "class A : public B, private ns::C, D<int> { void f(); };\nstruct E : A {};\n",
        {"A B", "A C", "A D", "E A"},
    ),
    "x.py": (
        "class A(B, ns.C, Generic[T], metaclass=M, x=f()): pass\n",
        {"A B", "A C", "A Generic"},
    ),
}


@pytest.mark.parametrize("path", INHERITS)
def test_classes_inherit_and_implement(path: str) -> None:
    source, expected = INHERITS[path]
    found = {tie for tie in ties(parse(path, source.encode())) if " inherits " in tie}
    assert found == {each.replace(" ", " inherits ") for each in expected}


CALLS = {
    "x.ts": (
        "class A { #b() {}\n c = () => { this.#b(); }; }\nimport('./lazy');\n",
        {"A.c calls A.#b", "x.ts imports lazy"},
    ),
    "x.jsx": (
        "function P() { return <><Row a={go()}><ui.Cell/></Row><div><my-tag/><P/></div></>; }\n",
        {"P calls Row", "P calls go", "P calls Cell", "P calls P"},
    ),
    "x.tsx": ("const F = () => <Row<T> a='b'>{g()}</Row>;\n", {"F calls Row", "F calls g"}),
    "x.js": ("class A { static c = function () { d(); }; }\n", {"A.c calls d"}),
    "x.go": (
        "package p\n"
        "func f() { a[int](1); b.c[int](1); d[int](1, 2); e.g[int, string](); h[0](1) }\n",
        {"f calls a", "f calls c", "f calls d", "f calls g"},
    ),
    "x.rs": (
        "fn f() { a!(b(1), c.d(2), e == (g), h!(i)); }\n",
        {"f calls a", "f calls b", "f calls d"},
    ),
    "x.cs": (
        "class A { void f() { a?.B(); a?.b.C<int>(); new D.E<int>(); } }\n",
        {"A.f calls B", "A.f calls C", "A.f calls E"},
    ),
    "x.php": (
        "<?php use A\\B as C; use D\\{E, F as G}; use function H\\i;\n",
        {"x.php imports A\\B", "x.php imports D", "x.php imports H\\i"},
    ),
    "x.swift": ("func f() { A<Int>(1) }\n", {"f calls A"}),
    "x.scala": ("object O { def f() = new a.B(2) }\n", {"O.f calls B"}),
}


@pytest.mark.parametrize("path", CALLS)
def test_calls_and_imports_in_less_common_forms(path: str) -> None:
    source, expected = CALLS[path]
    assert ties(parse(path, source.encode())) == expected


RECEIVERS = {
    "x.cpp": "class A { void f() { f(); this->f(); b.f(); b->f(); B::f(); } };",
    "x.cs": "class A { void f() { f(); this.f(); b.f(); base.f(); b?.f(); } }",
    "x.java": "class A { void f() { f(); this.f(); b.f(); super.f(); B.f(); } }",
    "x.kt": "class A {\n fun f() { f(); this.f(); b.f(); super.f(); b?.f() }\n}",
    "x.php": "<?php class A { function f() { $this->f(); self::f(); $b->f(); parent::f(); } }",
    "x.py": "class A:\n def f(self): self.f(); cls.f(); b.f(); super().f(); myself.f()",
    "x.rb": "class A\n def f\n f(1); self.f(1); b.f(1); super.f(1)\n end\nend",
    "x.rs": "impl A { fn f(&self) { self.f(); Self::f(); b.f(); B::f(); } }",
    "x.scala": "class A { def f() = { f(); this.f(); b.f(); super.f() } }",
    "x.swift": "class A { func f() { f(); self.f(); b.f(); super.f(); b?.f() } }",
    "x.ts": "class A { f() { this.f(); b.f(); super.f(); } }",
}
"""Two calls of the class's own method, and others of a method of that name."""


@pytest.mark.parametrize("path", RECEIVERS)
def test_a_call_on_something_else_is_not_one_of_the_own_method(path: str) -> None:
    found = {tie for tie in ties(parse(path, RECEIVERS[path].encode())) if tie.endswith("f")}
    assert found == {"A.f calls A.f", "A.f calls f"}


def test_a_ruby_name_alone_is_a_call_unless_it_is_a_variable() -> None:
    source = b"""
def f(a, b = call1, *c, d:, e: 1, **g, &h)
  i, (j, *k) = call2
  l ||= call3
  each { |m, (n, o); p| m; n; o; p; i; call4 }
  ->(q) { q }
  begin; rescue Error => r; r; end
  for s in call5 do s end
  case call6
  in {t:, u: Integer => v} then t
  in [w, *x] then w
  in y then y
  end
  alias other name
  "#{call7}" if call8?
  a; b; c; d; e; g; h; i; j; k; l; v; x; it
end
z = 1
z
"""
    expected = {f"f calls call{number}" for number in range(1, 8)}
    assert ties(parse("x.rb", source)) == expected | {"f calls call8?", "f calls each"}


def test_a_class_without_a_name_inherits_nothing() -> None:
    assert ties(parse("x.js", b"f(class extends B {})\n")) == {"x.js calls f"}


def test_a_tie_has_every_line_once() -> None:
    parsed = parse("a.py", b"def f():\n    g()\n    g(g())\n    h()\n")
    called = {each.entity_id: each.name for each in parsed.entities}
    calls = {called[each.target_id]: each.lines for each in parsed.relations}
    assert calls == {"g": (2, 3), "h": (4,)}


@pytest.mark.parametrize(
    ("path", "module", "meant"),
    [
        ("shop/cart.py", ".prices", "shop.prices"),
        ("shop/cart.py", ".", "shop"),
        ("shop/deep/cart.py", "..prices.old", "shop.prices.old"),
        ("cart.py", ".prices", "prices"),
        ("cart.py", "os.path", "os.path"),
        ("web/cart.ts", "./prices", "web/prices"),
        ("web/cart.ts", "../lib/x.js", "lib/x.js"),
        ("web/cart.ts", "react", "react"),
    ],
)
def test_a_relative_import_is_resolved_by_where_the_file_lies(
    path: str, module: str, meant: str
) -> None:
    assert absolute(path, module) == meant


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.path)
def test_each_language_gives_its_chunks_symbols_calls_and_imports(sample: Sample) -> None:
    parsed = parse(sample.path, sample.source.encode())
    assert symbols(parsed) == sample.symbols
    assert ties(parsed) == sample.ties
    assert defined(parsed) == (sample.functions, sample.classes)
    assert parsed.memory.lines == sample.source.count("\n")


def test_every_language_with_a_grammar_has_a_sample() -> None:
    sampled = {language_of(sample.path).name for sample in SAMPLES}
    assert sampled == {language.name for language in LANGUAGES if language.grammar}


def test_kotlin_bodies_on_one_line_are_read_like_others() -> None:
    source = b"object One { fun a() = b() }\nclass Two { fun m() { a() } }\nfun b() = One.a()\n"
    parsed = parse("a.kt", source)
    assert {"class One", "class Two", "function One.a", "function Two.m"} <= names(parsed)
    assert ties(parsed) >= {"One.a calls b", "b calls a"}


def test_a_method_is_known_by_its_own_name_and_by_its_class() -> None:
    parsed = parse("a.py", b"class A:\n    def go(self): pass\n")
    assert {"function A.go", "function go", "class A"} <= names(parsed)


def test_what_has_no_grammar_becomes_blocks_of_text() -> None:
    parsed = parse("notes.md", b"# Title\n\nwords\n")
    assert (parsed.memory.language, symbols(parsed)) == ("Markdown", [("text", "", 1, 3)])


def test_an_empty_file_has_no_chunks_and_no_ties() -> None:
    for content in (b"", b"\n\n", b"   \n\t\n"):
        parsed = parse("a.py", content)
        assert (parsed.chunks, parsed.relations, parsed.entities) == ((), (), ())


def test_lines_are_counted_as_an_editor_does() -> None:
    assert [parse("a.py", c).memory.lines for c in (b"", b"x", b"x\n", b"x\ny", b"\r\n\r\n")] == [
        *(0, 1, 1, 2, 2)
    ]


def test_bytes_that_are_not_utf8_are_read_and_shift_no_name() -> None:
    parsed = parse("a.py", b'x = "\xff\xfe"\ndef go():\n    "\xe9"\n    run()\n')
    assert ties(parsed) == {"go calls run"}
    assert "�" in parsed.chunks[0].text


@pytest.mark.parametrize(
    ("declaration", "encoding"),
    [
        ("# -*- coding: latin-1 -*-", "latin-1"),
        ("#!/usr/bin/python\n# vim: set fileencoding=Windows-1252 :", "cp1252"),
        ("# coding: koi8-r", "koi8-r"),
        ("# coding=shift_jis", "shift_jis"),
    ],
)
def test_a_file_is_read_in_the_encoding_it_declares(declaration: str, encoding: str) -> None:
    name = {"koi8-r": "счёт", "shift_jis": "会計"}.get(encoding, "café")
    parsed = parse("a.py", f"{declaration}\ndef {name}():\n    run()\n".encode(encoding))
    assert ties(parsed) == {f"{name} calls run"}
    assert f"def {name}" in parsed.chunks[-1].text


@pytest.mark.parametrize("declared", ["ghost", "cp99999", "utf-8", "idna", "euc-jp", "rot13"])
def test_a_declared_encoding_that_does_not_fit_is_passed_over(declared: str) -> None:
    source = f"# coding: {declared}\n".encode() + b'x = "\xff"\ndef go():\n    run()\n'
    assert ties(parse("a.py", source)) == {"go calls run"}


def test_a_byte_order_mark_is_not_part_of_the_first_name() -> None:
    assert "function go" in names(parse("a.py", b"\xef\xbb\xbfdef go(): pass\n"))


def test_carriage_returns_do_not_show_in_chunks() -> None:
    parsed = parse("a.py", b"def a():\r\n    pass\r\n\r\ndef b():\r\n    pass\r\n")
    assert symbols(parsed) == [("function", "a", 1, 2), ("function", "b", 4, 5)]
    assert parsed.chunks[0].text == "def a():\n    pass"


def test_a_long_function_is_cut_at_a_blank_line() -> None:
    body = "".join(f"    x{n} = {n}\n" + ("\n" if n == 70 else "") for n in range(150))
    parsed = parse("a.py", f"def go():\n{body}".encode())
    assert [(p.symbol, p.start_line) for p in parsed.chunks] == [("go", 1), ("go", 74)]


def test_minified_code_is_cut_within_its_line_and_keeps_its_names() -> None:
    source = "".join(f"function f{n}(){{g{n}()}}" for n in range(3000))
    parsed = parse("min.js", source.encode())
    assert "".join(p.text for p in parsed.chunks) == source
    assert {p.start_line for p in parsed.chunks} == {1}
    assert defined(parsed) == (3000, 0)
    assert "f2999 calls g2999" in ties(parsed)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("a.py", "(" * 20_000 + ")" * 20_000),
        ("a.py", "".join("    " * n + f"def f{n}():\n" for n in range(300)) + "    " * 300 + "g()"),
        ("a.js", "f(" * 20_000 + ")" * 20_000),
        ("a.js", "function f(){" * 5_000 + "}" * 5_000),
        ("a.rs", "mod m {" * 5_000 + "fn f() {}" + "}" * 5_000),
        ("a.c", "{" * 3_000),
        ("A.java", "class A {" * 3_000),
        ("a.cpp", "namespace n {" * 3_000 + "}" * 3_000),
        ("a.go", "package p\nfunc f() {" + "if x {" * 3_000 + "}" * 3_000 + "}"),
        ("a.ts", "let x: " + "Array<" * 3_000 + "u8" + ">" * 3_000),
    ],
    ids=lambda value: value[:12],
)
def test_deeply_nested_code_is_read(path: str, source: str) -> None:
    parsed = parse(path, source.encode())
    assert parsed.memory.lines == source.count("\n") + (not source.endswith("\n"))
    assert "".join("".join(p.text.split()) for p in parsed.chunks) == "".join(source.split())


WORDS = st.sampled_from(
    [
        *("def f():\n", "class A:\n", "    def g(self):\n", "        self.g()\n", "\n", "  \n"),
        *(
            "# note\n",
            "import os\n",
            "@deco\n",
            "x = f(1)\n",
            "    return A()\n",
            '"""',
            "é(",
            "\r\n",
        ),
        *(
            "function f() {",
            "}",
            "/* ",
            "*/\n",
            "struct s {",
            ";\n",
            "#include <a.h>\n",
            "λ = 'x\n",
        ),
        *(
            "impl A {",
            "fn f() {",
            "namespace n {",
            "\t",
            "'",
            "\x0c",
            "\u2028",
            "�",
            "((",
            "\x85\n",
        ),
    ]
)
CODE = st.lists(WORDS, max_size=40).map("".join)
PATHS = st.sampled_from([f"x{language.extensions[0]}" for language in LANGUAGES] + ["LICENSE"])


@settings(max_examples=300, deadline=None)
@given(path=PATHS, source=CODE)
def test_every_line_that_is_not_blank_is_in_exactly_one_chunk(path: str, source: str) -> None:
    parsed = parse(path, source.encode())
    lines = [line.removesuffix("\r") for line in source.split("\n")]
    held: dict[int, str] = {}
    for piece in parsed.chunks:
        rows = range(piece.start_line, piece.end_line + 1)
        for row, text in zip(rows, piece.text.split("\n"), strict=True):
            assert row not in held
            held[row] = text
    for number, line in enumerate(lines, start=1):
        assert held.get(number, "") == (line if number in held else "")
        assert number in held or not line.strip()


@settings(max_examples=200, deadline=None)
@given(path=PATHS, source=CODE)
def test_names_and_ties_hold_together(path: str, source: str) -> None:
    parsed = parse(path, source.encode())
    mentioned = {each.entity_id for each in parsed.mentions}
    assert mentioned == {each.entity_id for each in parsed.entities}
    assert {each.chunk_id for each in parsed.mentions} <= {c.chunk_id for c in parsed.chunks}
    assert len(set(parsed.mentions)) == len(parsed.mentions)
    assert len(set(parsed.relations)) == len(parsed.relations)
    assert all({tie.source_id, tie.target_id} <= mentioned for tie in parsed.relations)
    assert parsed == parse(path, source.encode())


@settings(max_examples=100, deadline=None)
@given(lines=st.lists(st.text("ab \n", max_size=30), max_size=400), long=st.integers(0, 30_000))
def test_no_chunk_is_longer_than_the_limits(lines: list[str], long: int) -> None:
    source = "\n".join(lines) + "\n" + "z" * long
    for piece in parse_text("a.txt", source.encode()).chunks:
        assert len(piece.text) <= MAX_CHUNK_CHARS
        assert piece.end_line - piece.start_line < MAX_CHUNK_LINES


def test_an_unknown_language_is_refused_with_the_known_ones() -> None:
    assert chosen(["TS", "c++"]) == {"TypeScript", "TSX", "C++"}
    with pytest.raises(
        UnknownName, match="no language named 'cobol'; known are Python, JavaScript"
    ):
        chosen(["cobol"])
