// A kernel trace as a file: what one GPU ran, kernel by kernel, during some chunks of a training step. Its form is a
// CSV with the header index,stream,class,phase,layer,start_us,dur_us,grid_ctas,note; lines that start with '#' are
// comments (calibrate/published/h800_dualpipe_chunk.csv, docs/measuring.md).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "calibrate/import/kernel_classes.h"
#include "model/base/error.h"
#include "model/result/timeline.h"

namespace plumbline::calibrate {

// Reads a kernel trace; its kernels are in the order of the file. Input errors with file, line and column: a missing
// file, a header with unknown or missing columns (they may stand in any order), bad numbers, negative times, indices
// out of order, no kernel.
model::Result<model::Timeline> read_chunk(const std::string& path, const KernelClasses& classes);

// The same from text that was read already; `path` is for messages.
model::Result<model::Timeline> parse_chunk(std::string_view text, const std::string& path,
                                           const KernelClasses& classes);

// The CSV, `comments` first, each on a line of its own behind "# ". Times are written in microseconds with up to three
// digits (whole nanoseconds), so that what read_chunk gives back is written again the same. Cells are not quoted:
// commas in a note become spaces.
std::string to_csv(const model::Timeline& timeline, const std::vector<std::string>& comments);

}  // namespace plumbline::calibrate
