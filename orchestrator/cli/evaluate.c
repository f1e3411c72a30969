/* evaluate.c - `evaluate --truth ROOT`: judges a submission to CAMELYON16. */
#include "orchestrator/cli/cli.h"
#include "orchestrator/evaluate/submission.h"

#include <stdio.h>

static void print_evaluation(const struct hrf_evaluation *evaluation, bool json)
{
    if (json) {
        HRF_AUTO_JSON root = hrf_evaluation_json(evaluation);
        hrf_json_print(root);
        return;
    }
    HRF_AUTO_RELEASE(hrf_strbuf) text = HRF_STRBUF_INIT;
    hrf_evaluation_text(evaluation, &text);
    hrf_cli_printf("%s", text.text);
}

static enum hrf_status evaluate_check(const struct hrf_evaluation_params *params,
                                      struct hrf_error *err)
{
    if (params->truth == NULL)
        return hrf_error_set(err, HRF_E_USER, "--truth ROOT is missing");
    if (params->lesions == NULL && params->slides == NULL)
        return hrf_error_set(err, HRF_E_USER,
                             "nothing to judge: give --lesions DIR, --slides FILE, or both");
    if (params->tuning != NULL && params->slides == NULL)
        return hrf_error_set(
            err, HRF_E_USER,
            "--tune chooses a threshold for slide scores: give them with --slides FILE");
    return HRF_OK;
}

static int evaluate_main(const struct hrf_command *command, int argc, char **argv)
{
    struct hrf_evaluation_params params = { .n_resamples = HRF_BOOTSTRAP_RESAMPLES, .seed = 1 };
    struct hrf_option_list exclude = { .n_items = 0 };
    int64_t seed = 1;
    bool json = false;
    const struct hrf_option options[] = {
        { "truth", "ROOT", "the data set's folder as downloaded, or its part with the truth",
          HRF_OPTION(&params.truth) },
        { "lesions", "DIR", "a csv of confidence,x,y for each slide, named as the slide",
          HRF_OPTION(&params.lesions) },
        { "slides", "FILE", "a csv of slides and their scores", HRF_OPTION(&params.slides) },
        { "column", "TITLE", "the column of --slides that has the scores",
          HRF_OPTION(&params.column) },
        { "tune", "FILE",
          "a csv of scores of other slides, e.g. of the training split: the threshold is chosen "
          "there",
          HRF_OPTION(&params.tuning) },
        { "specificity", "P", "with --tune: the specificity to reach there (default: Youden's J)",
          HRF_OPTION_NUMBER(&params.specificity, 0, 1) },
        { "precision", "P",
          "if --slides is the labels.csv of a run: the precision to judge (default: its first)",
          HRF_OPTION(&params.precision) },
        { "evaluation", "RULE", "explained above",
          HRF_OPTION_WORDS(&params.rule, hrf_froc_rule_names) },
        { "exclude", "SLIDE", "leave this slide out too; may be repeated", HRF_OPTION(&exclude) },
        { "no-exclusions", NULL, "keep the slides that are known to be wrong",
          HRF_OPTION(&params.no_exclusions) },
        { "outlines", NULL, "use the XML outlines of a slide even if it also has a mask",
          HRF_OPTION(&params.prefer_xml) },
        { "resamples", "N", "number of bootstrap resamples",
          HRF_OPTION_NUMBER(&params.n_resamples, 1, 1000000) },
        { "seed", "N", "seed of the bootstrap", HRF_OPTION_NUMBER(&seed, 0, HRF_UNBOUNDED) },
        { "json", NULL, "print JSON", HRF_OPTION(&json) },
        { NULL },
    };
    struct hrf_args args = hrf_args_parse(HRF_PROGRAM, command, options, argc, argv);
    if (args.done)
        return args.exit_code;
    struct hrf_error err = { .status = HRF_OK };
    HRF_AUTO(hrf_evaluation) evaluation = NULL;
    params.excluded = exclude.items;
    params.n_excluded = exclude.n_items;
    params.seed = (uint64_t)seed;
    enum hrf_status status = evaluate_check(&params, &err);
    if (status == HRF_OK)
        status = hrf_evaluate(&params, &evaluation, &err);
    if (status != HRF_OK)
        return hrf_cli_fail(command->name, &err);
    fputs(evaluation->warnings.text, stderr);
    print_evaluation(evaluation, json);
    return 0;
}

const struct hrf_command hrf_cli_evaluate = {
    .name = "evaluate",
    .operands = "",
    .summary = "judge a CAMELYON16 submission: FROC of lesions, AUC of slides",
    .details =
        "Judges results of any program, without a run and without the slides. ROOT is searched for "
        "reference.csv, outlines (XML, in folders or lesion_annotations.zip) and masks. FROC "
        "follows the official Evaluation_FROC.py to the digit (official); jama averages false "
        "positives over slides without metastases only; strict counts every detection and slides "
        "without a file. Slides that are known to be wrong (test_049, test_114, ...) are left out "
        "and named.",
    .min_operands = 0,
    .max_operands = 0,
    .run = evaluate_main,
};
