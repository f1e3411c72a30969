/* nvjpeg.cc - nvJPEG on the emulated GPU (stream.cc): libjpeg's pixels, so that a run has the bytes
 * of one whose tiles the CPU decodes. The library's own names; what our header says of them is all
 * that is here.
 *
 * A batch is decoded when the stream gets there, from where the data lies then. Headers are looked
 * at before, as the real one does.
 *
 * HRF_EMULATED_NVJPEG, items joined by commas: "no-engines" (kernels decode), "refuses" (it cannot
 * be started), "init-fails" (no batch can be), "bad=N" (the Nth batch, from 1, is called a bad
 * JPEG), "skips=N", "half=N" (tile N of every batch is not written, or its first half only),
 * "black=N" (tile N comes out black), "swapped" (blue for red), "shifted" (a pixel to the right),
 * "plain" (another decoder: fast DCT, no interpolation of chroma).
 */
#include "cuda_runtime_api.h"

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string>
#include <vector>

#include <jpeglib.h>

namespace
{

enum { SUCCESS = 0, INVALID = 2, BAD = 3, MISMATCH = 7, NOT_SUPPORTED = 9 };
enum { HARDWARE = 3, UNCHANGED = 0, RGBI = 5 };

const hrf_emulated_gpu *gpu()
{
    static const auto *found = static_cast<const hrf_emulated_gpu *const *>(
        dlsym(RTLD_DEFAULT, "hrf_emulated_gpu_pointer"));
    if (found == nullptr) {
        fprintf(stderr, "emulated nvJPEG: no emulated GPU in this process\n");
        abort();
    }
    return *found;
}

/* Whether an item is there, and the number behind "name=". */
bool asked(const char *name, int *number = nullptr)
{
    const char *text = getenv("HRF_EMULATED_NVJPEG");
    const std::string all = std::string(",") + (text != nullptr ? text : "") + ",";
    const size_t at = all.find(std::string(",") + name + (number != nullptr ? "=" : ","));
    if (at != std::string::npos && number != nullptr)
        *number = atoi(all.c_str() + at + strlen(name) + 2);
    return at != std::string::npos;
}

struct failure {
    jpeg_error_mgr base;
    jmp_buf place;
};

void leave(j_common_ptr jpeg)
{
    longjmp(reinterpret_cast<failure *>(jpeg->err)->place, 1);
}

/* To out, or no more than the header where that is NULL. The real one does not warn, and takes
 * channels that are numbered 1, 2, 3 for Y, Cb, Cr. */
bool read_jpeg(const unsigned char *data, size_t n, unsigned char *out, size_t pitch, int *height,
               bool converts = true)
{
    jpeg_decompress_struct jpeg;
    failure failed;
    jpeg.err = jpeg_std_error(&failed.base);
    failed.base.error_exit = leave;
    failed.base.emit_message = [](j_common_ptr, int) {};
    if (setjmp(failed.place) != 0) {
        jpeg_destroy_decompress(&jpeg);
        return false;
    }
    jpeg_create_decompress(&jpeg);
    jpeg_mem_src(&jpeg, data, static_cast<unsigned long>(n));
    jpeg_read_header(&jpeg, TRUE);
    *height = static_cast<int>(jpeg.image_height);
    if (out != nullptr) {
        jpeg.jpeg_color_space = jpeg.comp_info[0].component_id == 1 ? JCS_YCbCr : JCS_RGB;
        jpeg.out_color_space = converts ? JCS_RGB : jpeg.jpeg_color_space;
        jpeg.do_fancy_upsampling = asked("plain") ? FALSE : TRUE;
        jpeg.dct_method = asked("plain") ? JDCT_IFAST : JDCT_ISLOW;
        jpeg_start_decompress(&jpeg);
        while (jpeg.output_scanline < jpeg.output_height) {
            JSAMPROW row = out + jpeg.output_scanline * pitch;
            jpeg_read_scanlines(&jpeg, &row, 1);
        }
        jpeg_finish_decompress(&jpeg);
    }
    jpeg_destroy_decompress(&jpeg);
    return true;
}

struct image {
    unsigned char *channel[4];
    size_t pitch[4];
};
struct state {
    int n = 0, format = 0;
    long n_batches = 0;
};

void decode_planes(const unsigned char *data, size_t length, image to, int height)
{
    const size_t n = to.pitch[0] * static_cast<size_t>(height);
    std::vector<unsigned char> pixels(3 * n);
    if (!read_jpeg(data, length, pixels.data(), 3 * to.pitch[0], &height, false))
        return;
    for (size_t i = 0; i < 3 * n; i++)
        to.channel[i % 3][i / 3] = pixels[i];
}

void decode(int number, const unsigned char *data, size_t length, image to, int height)
{
    const size_t n = to.pitch[0] * static_cast<size_t>(height);
    int which = -1;
    std::vector<unsigned char> rgb(n);
    if (asked("skips", &which) && which == number)
        return;
    if (!read_jpeg(data, length, rgb.data(), to.pitch[0], &height))
        return; /* the real one may say nothing either */
    if (asked("black", &which) && which == number)
        rgb.assign(n, 0);
    for (size_t i = 0; i + 2 < n && asked("swapped"); i += 3)
        std::swap(rgb[i], rgb[i + 2]);
    const size_t at = asked("shifted") ? 3 : 0;
    memcpy(to.channel[0] + at, rgb.data(),
           asked("half", &which) && which == number ? n / 2 : n - at);
}

} // namespace

extern "C" {

int nvjpegGetProperty(int property, int *value)
{
    *value = property == 0 ? 13 : property == 1 ? 3 : 2;
    return SUCCESS;
}

int nvjpegCreateEx(int backend, void *, void *, unsigned, void **handle)
{
    if (asked("refuses") || (backend == HARDWARE && asked("no-engines")))
        return MISMATCH;
    *handle = new int(backend);
    return SUCCESS;
}

int nvjpegDestroy(void *handle)
{
    delete static_cast<int *>(handle);
    return SUCCESS;
}

int nvjpegJpegStateCreate(void *, void **out)
{
    *out = new state;
    return SUCCESS;
}

int nvjpegJpegStateDestroy(void *given)
{
    delete static_cast<state *>(given);
    return SUCCESS;
}

int nvjpegDecodeBatchedInitialize(void *, void *given, int n, int, int format)
{
    if (asked("init-fails"))
        return NOT_SUPPORTED;
    if (n < 1 || (format != RGBI && format != UNCHANGED))
        return INVALID;
    static_cast<state *>(given)->n = n;
    static_cast<state *>(given)->format = format;
    return SUCCESS;
}

int nvjpegDecodeBatched(void *, void *given, const unsigned char *const *data,
                        const size_t *lengths, image *images, cudaStream_t stream)
{
    state *s = static_cast<state *>(given);
    int bad = 0;
    if (s->n == 0)
        return INVALID;
    if (asked("bad", &bad) && ++s->n_batches == bad)
        return BAD;
    for (int i = 0; i < s->n; i++) {
        int height = 0;
        if (!read_jpeg(data[i], lengths[i], nullptr, 0, &height))
            return BAD;
        if (!gpu()->is_on_device(images[i].channel[0], images[i].pitch[0] * size_t(height)))
            return INVALID;
        const unsigned char *from = data[i];
        const size_t length = lengths[i];
        const image to = images[i];
        const bool is_planar = s->format == UNCHANGED;
        gpu()->queue_attempt(stream, [=]() -> hrf_emulated_attempt {
            return [=] {
                if (is_planar)
                    decode_planes(from, length, to, height);
                else
                    decode(i, from, length, to, height);
                return true;
            };
        });
    }
    return SUCCESS;
}

} // extern "C"
