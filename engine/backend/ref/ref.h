/* ref.h - the reference back end: plain loops in double, every operator, the truth. */
#ifndef HRF_ENGINE_BACKEND_REF_REF_H
#define HRF_ENGINE_BACKEND_REF_REF_H

#include "engine/backend/backend.h"

extern const struct hrf_backend_ops hrf_backend_ref;

#endif
