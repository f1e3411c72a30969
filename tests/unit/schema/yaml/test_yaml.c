/* The node tree: places, aliases, limits, merge keys, and texts that survive writing. */
#include "base/strbuf.h"
#include "schema/yaml/tree.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>

static struct hrf_yaml *parse_good(const char *text)
{
    struct hrf_yaml *yaml = NULL;
    struct hrf_error err = { .status = HRF_OK };
    if (hrf_yaml_parse(text, strlen(text), "t.yaml", &yaml, &err) != HRF_OK)
        fail_msg("%s", err.text);
    return yaml;
}

static void assert_refused(const char *text, const char *message)
{
    struct hrf_yaml *yaml = NULL;
    struct hrf_error err = { .status = HRF_OK };
    assert_int_equal(hrf_yaml_parse(text, strlen(text), "t.yaml", &yaml, &err), HRF_E_USER);
    assert_null(yaml);
    assert_string_equal(err.text, message);
}

static void nodes_know_their_kind_text_and_place(void **state)
{
    (void)state;
    struct hrf_yaml *yaml = parse_good("# comment\na: 5\n\xc3\xa9: {b: 'x y', c: [1, \"2\"]}\n");
    const struct hrf_yaml_node *root = hrf_yaml_root(yaml);
    assert_int_equal(root->kind, HRF_YAML_MAP);
    assert_int_equal(root->n_items, 2);
    const struct hrf_yaml_node *a = hrf_yaml_find(root, "a");
    assert_string_equal(a->text, "5");
    assert_true(a->plain);
    assert_int_equal(a->line, 2);
    assert_int_equal(a->column, 4);
    const struct hrf_yaml_node *e = hrf_yaml_find(root, "\xc3\xa9");
    assert_int_equal(e->line, 3);
    assert_int_equal(e->column, 4); /* characters, not bytes */
    const struct hrf_yaml_node *b = hrf_yaml_find(e, "b");
    assert_string_equal(b->text, "x y");
    assert_false(b->plain);
    const struct hrf_yaml_node *c = hrf_yaml_find(e, "c");
    assert_int_equal(c->kind, HRF_YAML_SEQUENCE);
    assert_int_equal(c->n_items, 2);
    assert_null(c->items[0].key);
    assert_false(c->items[1].value->plain);
    assert_int_equal(e->items[1].key->column, 15);
    assert_null(hrf_yaml_find(e, "nothing"));
    assert_null(hrf_yaml_find(a, "a"));
    assert_int_equal(root->weight, 1 + 2 + 2 + 2 + 2 + 2);
    hrf_yaml_destroy(yaml);
}

static void nothing_is_plain_and_empty_tilde_or_null(void **state)
{
    (void)state;
    struct hrf_yaml *yaml = parse_good("[~, null, '', '~', nil, [], !!str ~]");
    const bool expected[] = { true, true, false, false, false, false, false };
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(hrf_yaml_is_null(hrf_yaml_root(yaml)->items[i].value), expected[i]);
    hrf_yaml_destroy(yaml);
    yaml = parse_good("a:\n");
    assert_true(hrf_yaml_is_null(hrf_yaml_find(hrf_yaml_root(yaml), "a")));
    hrf_yaml_destroy(yaml);
}

static void an_alias_is_the_node_it_names(void **state)
{
    (void)state;
    struct hrf_yaml *yaml = parse_good("a: &x [1, 2]\nb: *x\n");
    const struct hrf_yaml_node *root = hrf_yaml_root(yaml);
    assert_ptr_equal(hrf_yaml_find(root, "a"), hrf_yaml_find(root, "b"));
    hrf_yaml_destroy(yaml);
    assert_refused("a: *x\n", "t.yaml:1:4: the alias '*x' has no anchor; write '&x' before the "
                              "value it stands for");
    assert_refused("a: &x [1, *x]\n", "t.yaml:1:11: the alias '*x' stands inside the value it "
                                      "names; it cannot hold itself");
}

static void an_alias_bomb_is_refused_early(void **state)
{
    (void)state;
    struct hrf_strbuf text = HRF_STRBUF_INIT;
    hrf_strbuf_adds(&text, "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for (int i = 1; i < 12; i++) {
        hrf_strbuf_addf(&text, "a%d: &a%d [", i, i);
        for (int j = 0; j < 10; j++)
            hrf_strbuf_addf(&text, "%s*a%d", j > 0 ? ", " : "", i - 1);
        hrf_strbuf_adds(&text, "]\n");
    }
    assert_refused(text.text, "t.yaml:5:25: more than 50000 values, aliases counted out; make the "
                              "file smaller");
    hrf_strbuf_release(&text);
}

static void too_deep_and_too_many_documents_are_refused(void **state)
{
    (void)state;
    char deep[200];
    memset(deep, '[', 100);
    deep[100] = '\0';
    assert_refused(deep, "t.yaml:1:33: more than 32 levels deep; a workflow needs five");
    assert_refused("a: 1\n---\nb: 1\n", "t.yaml:2:1: a second document starts here; a file holds "
                                        "one, so remove the '---' and what follows");
    assert_refused("# nothing\n", "t.yaml:1:1: the file is empty; start from workflows/demo.yaml");
}

static void duplicate_keys_are_marked_with_the_first_line(void **state)
{
    (void)state;
    struct hrf_yaml *yaml = parse_good("a: 1\nb: 2\n\"a\": 3\n");
    const struct hrf_yaml_node *root = hrf_yaml_root(yaml);
    assert_int_equal(root->items[0].duplicate_of, 0);
    assert_int_equal(root->items[2].duplicate_of, 1);
    assert_string_equal(hrf_yaml_find(root, "a")->text, "1");
    hrf_yaml_destroy(yaml);
}

static void merge_keys_fill_what_is_not_given(void **state)
{
    (void)state;
    struct hrf_yaml *yaml = parse_good("x: &x {a: 1, b: 2}\ny: &y {b: 3, c: 4}\n"
                                       "z: {<<: [*x, *y], a: 9}\nw: {<<: *x}\n");
    const struct hrf_yaml_node *z = hrf_yaml_find(hrf_yaml_root(yaml), "z");
    assert_int_equal(z->n_items, 3);
    assert_string_equal(hrf_yaml_find(z, "a")->text, "9");
    assert_string_equal(hrf_yaml_find(z, "b")->text, "2");
    assert_string_equal(hrf_yaml_find(z, "c")->text, "4");
    assert_null(hrf_yaml_find(z, "<<"));
    assert_int_equal(hrf_yaml_find(hrf_yaml_root(yaml), "w")->n_items, 2);
    hrf_yaml_destroy(yaml);
    assert_refused("{<<: 5}",
                   "t.yaml:1:2: '<<' takes a map or a list of maps; write '<<: *anchor'");
}

static void syntax_errors_say_where_and_what_would_be_right(void **state)
{
    (void)state;
    assert_refused("a:\n\tb: 1\n", "t.yaml:2:1: a tab where YAML wants spaces; indent with spaces, "
                                   "not tabs");
    assert_refused("a: @b\n", "t.yaml:1:4: a value cannot start with '@'; put it in quotes");
    assert_refused("a: b: c\n", "t.yaml:1:5: mapping values are not allowed in this context; check "
                                "the indentation, and put a text that holds ': ' in quotes");
    assert_refused("a: \"b\n", "t.yaml:2:1: found unexpected end of stream (while scanning a "
                               "quoted scalar that starts on line 1); a quote is opened and never "
                               "closed");
    assert_refused("a: !!python/x 1\n", "t.yaml:1:4: the tag 'tag:yaml.org,2002:python/x' means "
                                        "nothing here; leave it out");
    assert_refused("[a]: 1\n", "t.yaml:1:1: a key is a list or a map; write a word as the key");
    assert_refused("a: \"x\\0y\"\n", "t.yaml:1:4: a text holds a NUL character; leave it out");
    assert_refused("a: b\nc: \xff\xfe\n", "t.yaml:2:4: invalid leading UTF-8 octet (byte value "
                                          "255); save the file as UTF-8 text");
}

static void any_text_survives_quoting(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "plain",
        "",
        "no",
        "NULL",
        "y",
        "5",
        "1e5",
        "a b",
        "- x",
        "a: b",
        "#x",
        "'",
        "\"",
        "\\",
        "two\nlines\n",
        "tab\there",
        "\xf0\x9f\x94\xac",
        "\xc3\xa9",
        "\xff\xfe",
        "a\xc3",
        "\x01\x7f",
        "\xc2\x85",
        "\xe2\x80\xa8",
        "\xef\xbb\xbf",
        " lead",
        "*a",
        "&a",
        "!a",
        "%a",
        "@a",
        "`a",
        "{a",
        "[a",
        "a,b",
        "/abs/path",
        "rel/path.onnx",
        "~",
        "0x10",
        "x\xff"
        "yz",
        "\xed\xa0\x80",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        HRF_AUTO_FREE char *quoted = hrf_yaml_quote(texts[i]);
        HRF_AUTO_FREE char *document = hrf_format("[%s]\n", quoted);
        struct hrf_yaml *yaml = parse_good(document);
        const struct hrf_yaml_node *node = hrf_yaml_root(yaml)->items[0].value;
        assert_string_equal(node->text, texts[i]);
        assert_false(hrf_yaml_is_null(node));
        hrf_yaml_destroy(yaml);
    }
    HRF_AUTO_FREE char *plain = hrf_yaml_quote("max_smoothed");
    assert_string_equal(plain, "max_smoothed");
    HRF_AUTO_FREE char *word = hrf_yaml_quote("off");
    assert_string_equal(word, "\"off\"");
    HRF_AUTO_FREE char *bytes = hrf_yaml_quote("a\xff");
    assert_string_equal(bytes, "!!binary \"Yf8=\"");
}

static void every_failed_allocation_is_a_status(void **state)
{
    (void)state;
    static const char text[] = "a: &x {b: [1, 2], c: !!binary YQ==}\nd: {<<: *x, e: *x}\n";
    struct hrf_yaml *yaml = NULL;
    for (int64_t n = 1; yaml == NULL && n < 1000; n++) {
        hrf_alloc_fail_after(n);
        enum hrf_status status = hrf_yaml_parse(text, strlen(text), "t.yaml", &yaml, NULL);
        hrf_alloc_fail_after(0);
        assert_int_equal(status, yaml != NULL ? HRF_OK : HRF_E_NOMEM);
    }
    assert_non_null(yaml);
    hrf_yaml_destroy(yaml);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_know_their_kind_text_and_place),
        cmocka_unit_test(nothing_is_plain_and_empty_tilde_or_null),
        cmocka_unit_test(an_alias_is_the_node_it_names),
        cmocka_unit_test(an_alias_bomb_is_refused_early),
        cmocka_unit_test(too_deep_and_too_many_documents_are_refused),
        cmocka_unit_test(duplicate_keys_are_marked_with_the_first_line),
        cmocka_unit_test(merge_keys_fill_what_is_not_given),
        cmocka_unit_test(syntax_errors_say_where_and_what_would_be_right),
        cmocka_unit_test(any_text_survives_quoting),
        cmocka_unit_test(every_failed_allocation_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
