/* machine_file.h - a machine described by a file, for planning on machines that one does not own.
 *
 * YAML (and so JSON, as `tune-comm` writes it):
 *   version: 1
 *   name: eight H200 in a node
 *   device: {name: H200, memory_gib: 139, overhead_us: 4, gb_per_s: 3800,
 *            tops: {fp32: 198, fp16: 396, bf16: 396, int8: 792}}    # as reached, not peak
 *   ranks_per_node: 8
 *   ports_per_node: 8                # ways out of a node that messages share (default 1)
 *   nodes: 4                         # default: as many as are asked for
 *   one_process: false               # ranks are threads of one process
 *   links:
 *     - {comm: nccl, placement: node, latency_us: 12, gb_per_s: 100}
 *     - {comm: ipc, placement: node, gpus: true, points: ...}   # between GPUs, by tune-comm
 *     - {comm: mpi, placement: network, points: [[bytes, send_us, transit_us, receive_us], ...]}
 */
#ifndef HRF_ENGINE_PLANNING_MACHINE_FILE_H
#define HRF_ENGINE_PLANNING_MACHINE_FILE_H

#include "engine/plan/machine.h"

/* HRF_E_USER with the file, the line and what would be right. */
HRF_CHECKED enum hrf_status hrf_machine_read(const char *path, struct hrf_machine *out,
                                             struct hrf_error *err);
HRF_CHECKED enum hrf_status hrf_machine_parse(const char *text, size_t n_bytes, const char *where,
                                              struct hrf_machine *out, struct hrf_error *err);
/* The machine as JSON that reads back; links as points. A new reference. */
json_t *hrf_machine_json(const struct hrf_machine *machine);

#endif
