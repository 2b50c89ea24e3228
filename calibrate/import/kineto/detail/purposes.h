// What kernels are for whose names do not state it: by the operators that launched them.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "calibrate/import/kernel_classes.h"
#include "calibrate/import/kineto/detail/places/places.h"
#include "calibrate/import/kineto/trace.h"

namespace plumbline::calibrate {

// Gives elementwise kernels, reductions, copies, casts and kernels without a class that of the chain of operators (file
// of classes) that launched them. What a backward launches has the class of its forward operator's chain, found by the
// sequence number of autograd; what an optimizer launches is of the class "optimizer". `class_names` has the class of
// each piece of work, given as indices into trace.work, by start; the new ones are texts of `classes`.
void name_purposes(const Trace& trace, const std::vector<std::size_t>& work, const KernelClasses& classes,
                   const Places& places, std::vector<std::string_view>& class_names);

}  // namespace plumbline::calibrate
