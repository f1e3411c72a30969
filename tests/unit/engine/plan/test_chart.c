/* Charts: points where their numbers are, filled where they were measured. */
#include "engine/plan/chart.h"

#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

static void points_lie_where_their_numbers_are(void **state)
{
    (void)state;
    /* 440 px for 1 to 4 by doubling, 220 px for 0 to 10. */
    const struct hrf_chart_point points[] = { { 1, 10, true }, { 2, 5, false }, { 4, 0, false } };
    const struct hrf_chart_series series = { "a & b", points, 3 };
    const struct hrf_chart chart = { "t", "x", "y", &series, 1 };
    struct hrf_strbuf out = HRF_STRBUF_INIT;
    hrf_chart_svg(&chart, &out);
    assert_int_equal(hrf_strbuf_status(&out, NULL), HRF_OK);
    assert_non_null(strstr(out.text, "d=\"M80.0 40.0L300.0 150.0L520.0 260.0\""));
    assert_non_null(strstr(out.text, "cx=\"80.0\" cy=\"40.0\" r=\"3.5\" fill=\"#0072b2\""));
    assert_non_null(strstr(out.text, "cx=\"300.0\" cy=\"150.0\" r=\"3.5\" fill=\"white\""));
    assert_non_null(strstr(out.text, ">a &amp; b</text>"));
    hrf_strbuf_release(&out);
}

static void a_missing_figure_is_a_gap_and_no_figure_at_all_is_an_empty_picture(void **state)
{
    (void)state;
    const struct hrf_chart_point points[] = { { 1, 1, false }, { 2, NAN, false }, { 4, 1, false } };
    const struct hrf_chart_series series = { "a", points, 3 }, none = { "b", NULL, 0 };
    const struct hrf_chart chart = { "t", "x", "y", &series, 1 };
    const struct hrf_chart empty = { "t", "x", "y", &none, 1 };
    struct hrf_strbuf out = HRF_STRBUF_INIT;
    hrf_chart_svg(&chart, &out);
    assert_non_null(strstr(out.text, "d=\"M80.0 40.0M520.0 40.0\""));
    hrf_strbuf_clear(&out);
    hrf_chart_svg(&empty, &out);
    assert_null(strstr(out.text, "nan"));
    assert_null(strstr(out.text, "inf"));
    assert_non_null(strstr(out.text, "</svg>"));
    hrf_strbuf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_lie_where_their_numbers_are),
        cmocka_unit_test(a_missing_figure_is_a_gap_and_no_figure_at_all_is_an_empty_picture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
