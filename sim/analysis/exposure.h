// Inside a slot: while no compute kernel runs, what does compute wait for?
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

// Of one template on a free lane. Where several streams run, the wait counts as the exchange's, then the collective's,
// then the copy's; of an exchange's meeting, the time for the slowest rank of the group as `stragglers`.
Exposure exposure(const model::SlotTemplate& slot, const std::vector<SegmentTime>& times, const TemplateRun& run);

// The template's times if communication neither held SMs nor slowed kernels down.
std::vector<SegmentTime> undisturbed(std::vector<SegmentTime> times);

}  // namespace plumbline::sim
