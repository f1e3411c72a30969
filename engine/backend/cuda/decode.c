/* decode.c - see decode.h. Tiles are decoded and cut in the stream in which pixels arrive else, so
 * that the kernels of the batch before run meanwhile.
 *
 * nvJPEG may say that a batch is decoded and leave some of it out. So tiles are filled with a value
 * before, and what has it afterwards was not written; and the first image of every batch is
 * compared with the processor's.
 */
#include "engine/backend/cuda/decode.h"

#include "engine/backend/cuda/cuda_private.h"
#include "engine/backend/cuda/nvjpeg_library.h"
#include "engine/ir/tile_batch.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNWRITTEN = 0x5b };

/* A tile whose stream is longer than this part of its pixels' bytes is not black: 8 x 8 px of one
 * colour take less than a byte. */
enum { LEAST_OF_A_PICTURE = 64 };
/* Decoders differ in the rounding of the DCT and between the samples of chroma. What is in the
 * wrong place, of the wrong colour space or damaged differs by more, in the mean of 255. */
static const double most_difference = 4, most_shift = 2;

/* What a batch needs, by slot. */
struct decoder_slot {
    void *state;               /* nvJPEG's */
    int n_initialised, format; /* of the batch before; 0: it failed, or there was none */
    uint8_t *tiles;
    struct hrf_tile_cut *cuts;
    int32_t *counts;
    struct hrf_nvjpeg_image *images; /* heap */
    unsigned char *seen;             /* pinned: the first image, and the counts */
    size_t tiles_room, cuts_room, counts_room, seen_room;
    int32_t images_room;
};

struct hrf_cuda_decoder {
    struct hrf_nvjpeg_library nvjpeg;
    void *handle;
    char name[96];
    struct decoder_slot slots[2];
};

void hrf_cuda_decoder_destroy(struct hrf_cuda_decoder *decoder)
{
    if (decoder == NULL)
        return;
    for (int i = 0; i < 2; i++) {
        struct decoder_slot *slot = &decoder->slots[i];
        if (slot->state != NULL)
            (void)decoder->nvjpeg.state_destroy(slot->state);
        hrf_cuda_release(slot->tiles);
        hrf_cuda_release(slot->cuts);
        hrf_cuda_release(slot->counts);
        hrf_free(slot->images);
        if (slot->seen != NULL)
            (void)cudaFreeHost(slot->seen);
    }
    if (decoder->handle != NULL)
        (void)decoder->nvjpeg.destroy(decoder->handle);
    hrf_free(decoder);
}
HRF_DEFINE_AUTO(hrf_cuda_decoder)

/* By the GPU's JPEG engines, else by kernels. */
static enum hrf_status create_handle(struct hrf_cuda_decoder *decoder, struct hrf_error *err)
{
    static const struct {
        int backend;
        const char *name;
    } backends[] = { { HRF_NVJPEG_BACKEND_HARDWARE, "JPEG engines" },
                     { HRF_NVJPEG_BACKEND_GPU_HYBRID, "kernels" } };
    const struct hrf_nvjpeg_library *n = &decoder->nvjpeg;
    int status = HRF_NVJPEG_SUCCESS;
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++) {
        status = n->create(backends[i].backend, NULL, NULL,
                           HRF_NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION, &decoder->handle);
        if (status != HRF_NVJPEG_SUCCESS)
            continue;
        snprintf(decoder->name, sizeof decoder->name, "nvJPEG %d.%d.%d (%s)", n->version[0],
                 n->version[1], n->version[2], backends[i].name);
        return HRF_OK;
    }
    decoder->handle = NULL;
    (void)hrf_nvjpeg_error(status, "starting it", err);
    return hrf_error_wrap(err, HRF_E_UNSUPPORTED, "nvJPEG %d.%d.%d", n->version[0], n->version[1],
                          n->version[2]);
}

static enum hrf_status library(char out[64], struct hrf_error *err)
{
    struct hrf_nvjpeg_library n;
    HRF_TRY(hrf_nvjpeg_load(&n, err));
    snprintf(out, 64, "nvJPEG %d.%d.%d", n.version[0], n.version[1], n.version[2]);
    return HRF_OK;
}

static enum hrf_status decode_open(struct hrf_backend *backend, const char **name,
                                   struct hrf_error *err)
{
    if (backend->decoder == NULL) {
        HRF_AUTO(hrf_cuda_decoder) decoder = hrf_calloc(1, sizeof *decoder);
        HRF_TRY(hrf_cuda_device_enter(backend->device, err));
        HRF_TRY(hrf_nvjpeg_load(&decoder->nvjpeg, err));
        HRF_TRY(create_handle(decoder, err));
        for (int i = 0; i < 2; i++) {
            const int status = decoder->nvjpeg.state_create(decoder->handle,
                                                            &decoder->slots[i].state);
            if (status != HRF_NVJPEG_SUCCESS)
                return hrf_nvjpeg_error(status, "starting it", err);
        }
        HRF_MOVE(backend->decoder, decoder);
    }
    *name = backend->decoder->name;
    return HRF_OK;
}

/* Device memory of at least n_bytes in the place of *memory; what it held is lost. */
static enum hrf_status grow(struct hrf_backend *backend, void *memory_at, size_t *room,
                            size_t n_bytes, struct hrf_error *err)
{
    void *memory, *larger = NULL;
    if (n_bytes <= *room)
        return HRF_OK;
    HRF_TRY(hrf_cuda_allocate(backend->device, n_bytes, &larger, err));
    memcpy(&memory, memory_at, sizeof memory);
    hrf_cuda_release(memory); /* waits for whoever still uses it */
    memcpy(memory_at, &larger, sizeof larger);
    *room = n_bytes;
    return HRF_OK;
}

static size_t image_bytes(const struct hrf_tile_batch *b)
{
    return (size_t)b->side * (size_t)b->n_rows * 3;
}

static size_t tile_bytes(const struct hrf_tile_batch *b)
{
    return (size_t)b->tile_width * (size_t)b->tile_height * 3;
}

static struct hrf_k_tiles sizes_of(const struct hrf_tile_batch *b)
{
    return (struct hrf_k_tiles){ b->tile_width, b->tile_height, b->side, b->n_rows, b->is_rgb };
}

static size_t count_bytes(const struct hrf_tile_batch *b, int32_t n_tiles)
{
    const struct hrf_k_tiles t = sizes_of(b);
    return (size_t)n_tiles * (size_t)hrf_k_tile_strips(&t) * 2 * sizeof(int32_t);
}

static enum hrf_status make_room(struct hrf_backend *backend, struct decoder_slot *slot,
                                 const struct hrf_tile_batch *b, struct hrf_error *err)
{
    const size_t n = (size_t)b->most_tiles, counts = count_bytes(b, b->most_tiles);
    const size_t seen = image_bytes(b) + counts + sizeof(int32_t);
    HRF_TRY(grow(backend, &slot->tiles, &slot->tiles_room, n * tile_bytes(b), err));
    HRF_TRY(grow(backend, &slot->cuts, &slot->cuts_room,
                 (size_t)b->most_cuts * sizeof slot->cuts[0], err));
    HRF_TRY(grow(backend, &slot->counts, &slot->counts_room, counts, err));
    if (b->most_tiles > slot->images_room) {
        hrf_free(slot->images);
        slot->images_room = 0;
        slot->images = hrf_calloc(n, sizeof slot->images[0]);
        slot->images_room = b->most_tiles;
    }
    if (seen > slot->seen_room) {
        void *memory = NULL;
        HRF_TRY_CUDA(cudaMallocHost(&memory, seen), "allocating host memory for transfers");
        if (slot->seen != NULL)
            (void)cudaFreeHost(slot->seen);
        slot->seen = memory;
        slot->seen_room = seen;
    }
    return HRF_OK;
}

/* Queues the decoding of all tiles. */
static enum hrf_status decode_tiles(struct hrf_cuda_decoder *decoder, struct decoder_slot *slot,
                                    const struct hrf_tile_batch *b, cudaStream_t stream,
                                    struct hrf_error *err)
{
    const struct hrf_nvjpeg_library *n = &decoder->nvjpeg;
    const int format = b->is_rgb ? HRF_NVJPEG_OUTPUT_UNCHANGED : HRF_NVJPEG_OUTPUT_RGBI;
    const size_t width = (size_t)b->tile_width, plane = tile_bytes(b) / 3;
    int status = HRF_NVJPEG_SUCCESS;
    for (int32_t i = 0; i < b->n_tiles; i++) {
        uint8_t *at = slot->tiles + (size_t)i * tile_bytes(b);
        slot->images[i] = b->is_rgb ? (struct hrf_nvjpeg_image){ .channel = { at, at + plane,
                                                                              at + 2 * plane },
                                                                 .pitch = { width, width, width } }
                                    : (struct hrf_nvjpeg_image){ .channel = { at },
                                                                 .pitch = { width * 3 } };
    }
    if (b->n_tiles != slot->n_initialised || format != slot->format)
        status = n->batch_init(decoder->handle, slot->state, b->n_tiles, 1, format);
    slot->n_initialised = 0; /* a batch that fails is followed by a new start */
    if (status == HRF_NVJPEG_SUCCESS)
        status = n->batch_decode(decoder->handle, slot->state, b->streams, b->lengths, slot->images,
                                 stream);
    if (status != HRF_NVJPEG_SUCCESS)
        return hrf_nvjpeg_error(status, "decoding a batch of tiles", err);
    slot->n_initialised = b->n_tiles;
    slot->format = format;
    return HRF_OK;
}

/* From the decoded tiles to the images; to the host what decode_check() looks at. */
static enum hrf_status cut(struct decoder_slot *slot, const struct hrf_tile_batch *b,
                           uint8_t *images, size_t all_bytes, cudaStream_t stream,
                           struct hrf_error *err)
{
    static const char what[] = "cutting images out of tiles";
    const struct hrf_k_tiles sizes = sizes_of(b);
    const size_t filled = (size_t)b->n_images * image_bytes(b);
    HRF_TRY_CUDA(cudaMemsetAsync(images, 255, filled, stream), what);
    if (filled < all_bytes)
        HRF_TRY_CUDA(cudaMemsetAsync(images + filled, 0, all_bytes - filled, stream), what);
    HRF_TRY_CUDA(hrf_k_cut_tiles(images, slot->tiles, slot->cuts, b->n_cuts, &sizes, stream), what);
    HRF_TRY_CUDA(
        cudaMemcpyAsync(slot->seen, images, image_bytes(b), cudaMemcpyDeviceToHost, stream), what);
    if (b->n_tiles == 0)
        return HRF_OK;
    HRF_TRY_CUDA(
        hrf_k_count_bytes(slot->counts, slot->tiles, b->n_tiles, &sizes, UNWRITTEN, stream), what);
    HRF_TRY_CUDA(cudaMemcpyAsync(slot->seen + (image_bytes(b) + 3) / 4 * 4, slot->counts,
                                 count_bytes(b, b->n_tiles), cudaMemcpyDeviceToHost, stream),
                 what);
    return HRF_OK;
}

static enum hrf_status decode_decode(struct hrf_backend *backend, int32_t slot, void *to,
                                     const struct hrf_value *input, const struct hrf_tile_batch *b,
                                     int64_t n_pixels, const struct hrf_pixel_form *form,
                                     struct hrf_error *err)
{
    static const char what[] = "copying tiles to the GPU";
    struct hrf_cuda_decoder *decoder = backend->decoder;
    assert(decoder != NULL && (slot == 0 || slot == 1));
    struct decoder_slot *mine = &decoder->slots[slot];
    uint8_t *images = NULL;
    cudaStream_t stream = backend->device->copies;
    HRF_TRY(make_room(backend, mine, b, err));
    HRF_TRY(hrf_cuda_land_begin(backend, slot, &images, err));
    if (b->n_tiles > 0) {
        HRF_TRY_CUDA(cudaMemcpyAsync(mine->cuts, b->cuts, (size_t)b->n_cuts * sizeof b->cuts[0],
                                     cudaMemcpyHostToDevice, stream),
                     what);
        HRF_TRY_CUDA(
            cudaMemsetAsync(mine->tiles, UNWRITTEN, (size_t)b->n_tiles * tile_bytes(b), stream),
            what);
        HRF_TRY(decode_tiles(decoder, mine, b, stream, err));
    }
    HRF_TRY(cut(mine, b, images, 3 * (size_t)n_pixels, stream, err));
    return hrf_cuda_land_end(backend, slot, to, input, n_pixels, form, err);
}

/* Whether nvJPEG has written all of a tile. */
static enum hrf_status check_tile(const struct hrf_tile_batch *b, int32_t tile,
                                  const int32_t *counts, struct hrf_error *err)
{
    const struct hrf_k_tiles sizes = sizes_of(b);
    const int64_t strips = hrf_k_tile_strips(&sizes);
    int64_t n_zero = 0;
    bool is_whole = true;
    for (int64_t i = 0; i < strips; i++) {
        const int64_t left = b->tile_height - i * HRF_K_STRIP_ROWS;
        const int64_t rows = left < HRF_K_STRIP_ROWS ? left : HRF_K_STRIP_ROWS;
        is_whole &= counts[2 * i] < rows * b->tile_width * 3;
        n_zero += counts[2 * i + 1];
    }
    if (is_whole &&
        (n_zero < (int64_t)tile_bytes(b) || b->lengths[tile] < tile_bytes(b) / LEAST_OF_A_PICTURE))
        return HRF_OK;
    return hrf_error_set(err, HRF_E_UNSUPPORTED,
                         "nvJPEG says that it has decoded tile %d, %d, and %s; use "
                         "engine.decode=cpu",
                         b->positions[tile][0], b->positions[tile][1],
                         is_whole ? "gives black for a picture" : "has not written all of it");
}

/* Whether the first image is the processor's but for rounding. */
static enum hrf_status check_witness(const struct hrf_tile_batch *b, const unsigned char *image,
                                     struct hrf_error *err)
{
    const int64_t n = (int64_t)image_bytes(b);
    int64_t sums[3] = { 0 }, differences[3] = { 0 };
    for (int64_t i = 0; i < n; i += 3)
        for (int c = 0; c < 3; c++) {
            const int d = image[i + c] - b->witness[i + c];
            sums[c] += d;
            differences[c] += abs(d);
        }
    for (int c = 0; c < 3; c++) {
        const double mean = (double)differences[c] * 3 / (double)n;
        const double shift = (double)sums[c] * 3 / (double)n;
        if (mean > most_difference || fabs(shift) > most_shift)
            return hrf_error_set(err, HRF_E_UNSUPPORTED,
                                 "nvJPEG's %s of a patch differs by %.2f of 255 in the mean (%+.2f "
                                 "with the sign) from the processor's, where %g (%g) is the most "
                                 "that rounding explains; use {engine.decode=cpu}",
                                 c == 0   ? "red"
                                 : c == 1 ? "green"
                                          : "blue",
                                 mean, shift, most_difference, most_shift);
    }
    return HRF_OK;
}

static enum hrf_status decode_check(struct hrf_backend *backend, int32_t slot,
                                    const struct hrf_tile_batch *b, struct hrf_error *err)
{
    const struct hrf_k_tiles sizes = sizes_of(b);
    const unsigned char *seen = backend->decoder->slots[slot].seen;
    const int32_t *counts = (const void *)(seen + (image_bytes(b) + 3) / 4 * 4);
    for (int32_t i = 0; i < b->n_tiles; i++)
        HRF_TRY(check_tile(b, i, counts + i * hrf_k_tile_strips(&sizes) * 2, err));
    return check_witness(b, seen, err);
}

const struct hrf_device_decoding_ops hrf_cuda_decoding = {
    .library = library,
    .open = decode_open,
    .decode = decode_decode,
    .check = decode_check,
};
