// The causes of compute waits inside a slot, while no compute kernel runs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/program/program.h"
#include "sim/step/segment_time.h"
#include "sim/step/template_run.h"

namespace plumbline::sim {

enum class Waits : std::uint8_t { dispatch, combine, stragglers, collective, host_copy };
inline constexpr std::size_t wait_kinds = 5;

using Exposure = std::array<double, wait_kinds>;  // s

// Returns the exposed seconds of one template on a GPU alone. Where several streams run, the wait counts for the
// all-to-all first, then the collective, then the copy. At the barrier of an all-to-all, the wait for the slowest rank
// of the group counts as `stragglers`.
Exposure exposure(const model::SlotTemplate& slot, const std::vector<SegmentTime>& times, const TemplateRun& run);

// Returns the template's times if communication neither held SMs nor slowed kernels down.
std::vector<SegmentTime> undisturbed(std::vector<SegmentTime> times);

}  // namespace plumbline::sim
