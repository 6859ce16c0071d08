#pragma once

#include <memory>

#include "backends/cpu/core/kernel.h"

namespace smelt {

/// True if it may pay to make the input of a convolution and the convolution itself by bands of rows: the input does
/// not stay in the caches of the threads.
bool may_chain_rows(const KernelSpec& conv);

/// Makes `kernel` run `next` as well, a convolution of its output, by bands of rows: the values between the two stand
/// in memory of a thread, a few rows at a time. `threads`: of the pool that run() will see. False: one of them cannot,
/// or it does not pay; both stay as they are. Precondition: may_chain_rows() of `next`.
bool chain_rows(std::unique_ptr<Kernel>& kernel, std::unique_ptr<Kernel>& next, int threads);

}  // namespace smelt
