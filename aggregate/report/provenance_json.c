/* provenance_json.c - writes provenance.json: entities, one activity, one agent, relations. */
#include "aggregate/report/provenance_json.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/path.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The results that are one file for the whole cohort. */
static const char *const tables[] = { "results/labels.csv",        "results/patch-flips.csv",
                                      "results/patch-quality.csv", "report/study.csv",
                                      "report/report.json",        "report/methods.md" };
enum { N_TABLES = sizeof tables / sizeof tables[0] };

struct document {
    json_t *entities, *used, *generated;
};

/* "_:u1", "_:u2" ...: relations have names of no meaning. */
static void relate(json_t *relations, const char *letter, json_t *relation)
{
    char name[32];
    snprintf(name, sizeof name, "_:%s%zu", letter, json_object_size(relations) + 1);
    hrf_json_put(relations, name, relation);
}

static json_t *qualified(const char *name)
{
    json_t *value = json_object();
    hrf_json_put_text(value, "$", name);
    hrf_json_put_text(value, "type", "prov:QUALIFIED_NAME");
    return value;
}

/* A relation of the run to something: "prov:entity", or "prov:agent". */
static json_t *of_run(const char *role, const char *id)
{
    json_t *relation = json_object();
    hrf_json_put_text(relation, "prov:activity", "hf:run");
    hrf_json_put_text(relation, role, id);
    return relation;
}

static void add_used(const struct document *d, const char *id, json_t *entity)
{
    hrf_json_put(d->entities, id, entity);
    relate(d->used, "u", of_run("prov:entity", id));
}

static void add_made(const struct document *d, const char *id, json_t *entity)
{
    hrf_json_put(d->entities, id, entity);
    relate(d->generated, "g", of_run("prov:entity", id));
}

static void add_slides(const struct document *d, const struct hrf_cohort *cohort)
{
    static const char *const states[] = { [HRF_SLIDE_DONE] = "done",
                                          [HRF_SLIDE_FAILED] = "failed",
                                          [HRF_SLIDE_NO_TISSUE] = "no_tissue",
                                          [HRF_SLIDE_EXCLUDED] = "excluded" };
    for (size_t i = 0; i < cohort->n_slides; i++) {
        const struct hrf_cohort_slide *slide = &cohort->slides[i];
        const bool is_known = slide->state < sizeof states / sizeof states[0] &&
                              states[slide->state] != NULL;
        char id[48];
        snprintf(id, sizeof id, "hf:slide-%zu", i + 1);
        json_t *entity = json_object();
        hrf_json_put(entity, "prov:type", qualified("hf:Slide"));
        hrf_json_put_text(entity, "prov:label", slide->name);
        hrf_json_put_text(entity, "prov:location", slide->path);
        hrf_json_put_text(entity, "hf:state", is_known ? states[slide->state] : "pending");
        if (slide->reason != NULL)
            hrf_json_put_text(entity, "hf:reason", slide->reason);
        if (slide->width > 0) {
            hrf_json_put_int(entity, "hf:width_px", slide->width);
            hrf_json_put_int(entity, "hf:height_px", slide->height);
        }
        if (slide->mpp > 0)
            hrf_json_put_number(entity, "hf:mpp", slide->mpp);
        if (slide->n_patches >= 0)
            hrf_json_put_int(entity, "hf:patches", slide->n_patches);
        add_used(d, id, entity);
    }
}

static const char *provenance_of(const struct hrf_cohort *cohort, const char *name)
{
    for (size_t i = 0; i < cohort->n_provenance; i++)
        if (strcmp(cohort->provenance[i].name, name) == 0)
            return cohort->provenance[i].text;
    return NULL;
}

static void add_file(const struct document *d, const struct hrf_cohort *cohort, const char *id,
                     const char *type, const char *name)
{
    const char *path = provenance_of(cohort, name);
    if (path == NULL)
        return;
    json_t *entity = json_object();
    hrf_json_put(entity, "prov:type", qualified(type));
    hrf_json_put_text(entity, "prov:location", path);
    if (strcmp(name, "model") == 0)
        hrf_json_put_text(entity, "hf:sha256", provenance_of(cohort, "model SHA-256"));
    add_used(d, id, entity);
}

static enum hrf_status add_tables(const struct document *d, const char *directory,
                                  struct hrf_error *err)
{
    for (size_t i = 0; i < N_TABLES; i++) {
        HRF_AUTO_FREE char *path = hrf_path_join(directory, tables[i]);
        char hex[HRF_HASH_HEX], id[64];
        if (access(path, F_OK) != 0)
            continue;
        HRF_TRY(hrf_hash_file(path, hex, err));
        snprintf(id, sizeof id, "hf:file-%zu", i + 1);
        json_t *entity = json_object();
        hrf_json_put(entity, "prov:type", qualified("hf:Table"));
        hrf_json_put_text(entity, "prov:location", tables[i]);
        hrf_json_put_text(entity, "hf:sha256", hex);
        add_made(d, id, entity);
    }
    return HRF_OK;
}

static void add_precisions(const struct document *d, const struct hrf_cohort *cohort)
{
    for (size_t i = 0; i < cohort->n_precisions; i++) {
        const char *name = cohort->precisions[i].name;
        char id[64], location[64];
        snprintf(id, sizeof id, "hf:results-%s", name);
        snprintf(location, sizeof location, "results/%s", name);
        json_t *entity = json_object();
        hrf_json_put(entity, "prov:type", qualified("prov:Collection"));
        hrf_json_put_text(entity, "prov:location", location);
        add_made(d, id, entity);
    }
}

/* The run, from the first submission of a job to now. */
static json_t *activities_json(const struct hrf_cohort *cohort, const char *made_at)
{
    json_t *activities = json_object(), *run = json_object(), *precisions = json_array();
    int64_t first = 0;
    for (size_t i = 0; i < cohort->n_jobs; i++)
        if (first == 0 || cohort->jobs[i].submitted_ms < first)
            first = cohort->jobs[i].submitted_ms;
    if (first > 0) {
        char start[24];
        hrf_clock_iso8601(first, start);
        hrf_json_put_text(run, "prov:startTime", start);
    }
    hrf_json_put_text(run, "prov:endTime", made_at);
    hrf_json_put_text(run, "prov:label", cohort->name);
    for (size_t i = 0; i < cohort->n_precisions; i++)
        hrf_json_add(precisions, hrf_json_string(cohort->precisions[i].name));
    hrf_json_put(run, "hf:precision", precisions);
    for (size_t i = 0; i < cohort->n_provenance; i++) {
        char key[96];
        snprintf(key, sizeof key, "hf:%s", cohort->provenance[i].name);
        for (char *c = key; *c != '\0'; c++)
            *c = *c == ' ' ? '_' : *c;
        hrf_json_put_text(run, key, cohort->provenance[i].text);
    }
    hrf_json_put(activities, "hf:run", run);
    return activities;
}

enum hrf_status hrf_report_provenance(const struct hrf_cohort *cohort, const char *directory,
                                      const char *made_at, const char *path, struct hrf_error *err)
{
    HRF_AUTO_JSON root = json_object();
    json_t *prefix = json_object(), *agents = json_object(), *program = json_object();
    json_t *associations = json_object();
    const char *version = provenance_of(cohort, "hires-flow");
    const struct document d = { json_object(), json_object(), json_object() };
    hrf_json_put_text(prefix, "hf", "urn:hires-flow:");
    hrf_json_put(program, "prov:type", qualified("prov:SoftwareAgent"));
    hrf_json_put_text(program, "prov:label", "hires-flow");
    hrf_json_put_text(program, "hf:version", version != NULL ? version : "");
    hrf_json_put(agents, "hf:program", program);
    hrf_json_put(associations, "_:a1", of_run("prov:agent", "hf:program"));
    hrf_json_put(root, "prefix", prefix);
    hrf_json_put(root, "agent", agents);
    hrf_json_put(root, "activity", activities_json(cohort, made_at));
    hrf_json_put(root, "entity", d.entities);
    hrf_json_put(root, "used", d.used);
    hrf_json_put(root, "wasGeneratedBy", d.generated);
    hrf_json_put(root, "wasAssociatedWith", associations);
    add_file(&d, cohort, "hf:workflow", "hf:Workflow", "workflow");
    add_file(&d, cohort, "hf:model", "hf:Model", "model");
    add_file(&d, cohort, "hf:slide-head", "hf:SlideHead", "slide head");
    add_slides(&d, cohort);
    add_precisions(&d, cohort);
    HRF_TRY(add_tables(&d, directory, err));
    return hrf_json_write_file(path, root, err);
}
