// A chunk measurement: what one GPU ran, kernel by kernel, during some chunks of a training step. Its form
// is a CSV with the header index,stream,class,phase,layer,start_us,dur_us,grid_ctas,note; lines that start
// with '#' are comments (calibrate/published/h800_dualpipe_chunk.csv, docs/measurements.md).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"

namespace plumbline::calibrate {

struct ChunkKernel {
  int stream = 0;
  std::string class_name;  // a class of calibrate/kernels.toml, e.g. "gemm_fp8"
  std::string phase;       // "F", "B" backward, "I" input gradient, "W" weight gradient; empty: unknown
  int layer = -1;          // 0-based within the chunk, in model order; -1: unknown
  double start = 0;        // s, since the first kernel of the measurement
  double duration = 0;     // s
  int grid = 0;            // CTAs launched; 0 for copies and memory sets
  std::string note;        // for people: words apart by spaces, mostly key=value
};

struct Chunk {
  std::string path;
  std::vector<ChunkKernel> kernels;  // in the order of the file
};

// Reads a chunk measurement. Input errors with file, line and column: a missing file, a header with unknown or
// missing columns (they may stand in any order), bad numbers, negative times, indices out of order, no kernel.
model::Result<Chunk> read_chunk(const std::string& path);

// The same from text that was read already; `path` is for messages.
model::Result<Chunk> parse_chunk(std::string_view text, const std::string& path);

// The CSV, `comments` first, each on a line of its own behind "# ". Times are written in microseconds with up
// to three digits (whole nanoseconds), so that what read_chunk gives back is written again the same. Cells are not
// quoted: commas in a note become spaces.
std::string to_csv(const Chunk& chunk, const std::vector<std::string>& comments);

}  // namespace plumbline::calibrate
