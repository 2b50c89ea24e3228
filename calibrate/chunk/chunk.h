// A kernel trace as a file: every kernel that one GPU ran during some chunks of a training step. The file is a CSV with
// the header index,stream,class,phase,layer,start_us,dur_us,grid_ctas,note. Lines that start with '#' are comments
// (calibrate/published/h800_dualpipe_chunk.csv, docs/measuring.md).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/import/kernel_classes.h"
#include "calibrate/measurement/measurement.h"
#include "model/base/error.h"
#include "model/result/timeline.h"

namespace plumbline::calibrate {

// Reads a kernel trace; the kernels keep the order of the file. Input errors name file, line and column: a missing
// file, a header with unknown or missing columns (their order is free), bad numbers, negative times, indices out of
// order, no kernel.
model::Result<model::Timeline> read_chunk(const std::string& path, const KernelClasses& classes);

// Parses a kernel trace from text; `path` only appears in errors.
model::Result<model::Timeline> parse_chunk(std::string_view text, const std::string& path,
                                           const KernelClasses& classes);

// Returns whether a text has the header of a kernel trace.
bool is_chunk(std::string_view text);

// Returns the value of a comment "# KEY: VALUE" up to a comma or parenthesis, as `import kineto` writes them: "device",
// "rank", "world size", "step". It is empty where no line has it.
std::string chunk_comment(std::string_view text, std::string_view key);

// Returns the median pause between kernels of a trace as a record of its device; nullopt where there is none.
std::optional<Measurement> launch_gap_record(const model::Timeline& timeline, const std::string& device);

// Parses a kernel trace as measurements: one record of the median pause between kernels (op "launch"). Kernels state no
// shape, so nothing else can be fitted to them, which is a note. The device is that of the line "# device: NAME", as
// `import kineto` writes it. Input errors are those of parse_chunk, and a missing device.
model::Result<Measurements> parse_chunk_records(std::string_view text, const std::string& path,
                                                const KernelClasses& classes);

// Returns the CSV, with `comments` first, each on a line of its own behind "# ". Times are in microseconds with up to
// three digits (whole nanoseconds), so that what read_chunk returned is written unchanged. Cells are not quoted: commas
// in a note become spaces.
std::string to_csv(const model::Timeline& timeline, const std::vector<std::string>& comments);

}  // namespace plumbline::calibrate
