// Measuring one case: all its variants, interleaved, so that drifting clocks touch them alike.
#pragma once

#include <vector>

#include "real/cuda/probe/case.h"
#include "real/cuda/probe/record.h"
#include "real/cuda/probe/toolbox.h"

namespace plumbline::real::cuda {

struct MeasureOptions {
  int samples = 30;  // per variant, at least 20
};

class Collectives;

// Appends one measurement per variant of the case. Wrong numbers are a failure: nothing is timed then.
// `collectives` serves the exchanges between ranks.
Status measure(const Case& what, const MeasureOptions& options, Toolbox& tools, Collectives& collectives,
               std::vector<Measurement>& results);

// The parts, by kind of case.
Status measure_kernel(const Case& what, const MeasureOptions& options, Toolbox& tools,
                      std::vector<Measurement>& results);
Status measure_partition(const Case& what, const MeasureOptions& options, Toolbox& tools,
                         std::vector<Measurement>& results);
Status measure_copy(const Case& what, const MeasureOptions& options, Toolbox& tools, std::vector<Measurement>& results);
Status measure_host_to_device(const Case& what, const MeasureOptions& options, Toolbox& tools,
                              std::vector<Measurement>& results);
Status measure_launch(const Case& what, const MeasureOptions& options, Toolbox& tools,
                      std::vector<Measurement>& results);
Status measure_graph(const Case& what, const MeasureOptions& options, Toolbox& tools,
                     std::vector<Measurement>& results);

// Blank measurements for the variants of a case, in order.
std::vector<Measurement> blank_measurements(const Case& what);

// Reads clocks and power while `stream` works, and lets it count cycles behind what it has to do: the driver's own
// reading of the SM clock is up to a tenth of a second old. Throttle reasons add up over the readings.
void read_clock(const Toolbox& tools, cudaStream_t stream, ClockReading& into);
// Once the stream was waited for: the SM clock by the cycles counted.
void finish_clock(const Toolbox& tools, ClockReading& into);

// The error of a check that failed, naming error and tolerance.
Status passed(const CheckOutcome& outcome);

}  // namespace plumbline::real::cuda
