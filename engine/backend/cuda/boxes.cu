/* boxes.cu - what ranks exchange: boxes of pixels packed and unpacked, and parts of a sum joined.
 */
#include "engine/backend/cuda/elements.cuh"

namespace
{
struct alignas(16) sixteen {
    uint64_t half[2];
};

/* All sizes in units of T. */
struct box_view {
    int64_t n_rows, row, to_image, to_row, from_image, from_row;
};
} // namespace

template <typename T> KERNEL copy_units(box_view b, int64_t n, T *to, const T *from)
{
    FOR_EACH(i, n)
    {
        const int64_t line = i / b.row, at = i % b.row;
        const int64_t image = line / b.n_rows, row = line % b.n_rows;
        to[image * b.to_image + row * b.to_row + at] =
            from[image * b.from_image + row * b.from_row + at];
    }
}

template <typename T> static cudaError_t copy_as(const struct hrf_k_box *b, cudaStream_t stream)
{
    const int64_t size = (int64_t)sizeof(T);
    const box_view view = { b->n_rows,        b->row_bytes / size,  b->to_image / size,
                            b->to_row / size, b->from_image / size, b->from_row / size };
    const int64_t n = b->n_images * b->n_rows * view.row;
    return LAUNCH(copy_units<T>, n, stream, view, n, static_cast<T *>(b->to),
                  static_cast<const T *>(b->from));
}

/* The largest unit that everything is a multiple of. */
cudaError_t hrf_k_copy_box(const struct hrf_k_box *b, cudaStream_t stream)
{
    const uint64_t all = (uint64_t)(uintptr_t)b->to | (uint64_t)(uintptr_t)b->from |
                         (uint64_t)(b->row_bytes | b->to_image | b->to_row | b->from_image |
                                    b->from_row);
    if (all % 16 == 0)
        return copy_as<sixteen>(b, stream);
    if (all % 4 == 0)
        return copy_as<uint32_t>(b, stream);
    return all % 2 == 0 ? copy_as<uint16_t>(b, stream) : copy_as<uint8_t>(b, stream);
}

template <typename T> KERNEL sum_parts(T *y, const T *parts, int32_t n_parts, int64_t count)
{
    FOR_EACH(i, count)
    {
        T sum = parts[i];
        for (int32_t k = 1; k < n_parts; k++)
            sum += parts[k * count + i];
        y[i] = sum;
    }
}

KERNEL largest_part(hrf_k_array y, hrf_k_array parts, int32_t n_parts, int64_t count)
{
    FOR_EACH(i, count)
    {
        float largest = load(parts, i);
        for (int32_t k = 1; k < n_parts; k++) {
            const float v = load(parts, k * count + i);
            largest = v > largest ? v : largest;
        }
        store(y, i, largest);
    }
}

cudaError_t hrf_k_sum_doubles(double *y, const double *parts, int32_t n_parts, int64_t count,
                              cudaStream_t stream)
{
    return LAUNCH(sum_parts<double>, count, stream, y, parts, n_parts, count);
}

cudaError_t hrf_k_sum_integers(int32_t *y, const int32_t *parts, int32_t n_parts, int64_t count,
                               cudaStream_t stream)
{
    return LAUNCH(sum_parts<int32_t>, count, stream, y, parts, n_parts, count);
}

cudaError_t hrf_k_largest(const struct hrf_k_array *y, const struct hrf_k_array *parts,
                          int32_t n_parts, int64_t count, cudaStream_t stream)
{
    return LAUNCH(largest_part, count, stream, *y, *parts, n_parts, count);
}
