// Component tables of other projects as this project keeps them (calibrate/components/load.h): one file per GPU and
// table, with source, license and what was left out in its heading. Read are CSV files with a row per measurement,
// which are recognized by their columns; docs/measuring.md has a command that writes one from a parquet file.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "model/base/error.h"

namespace plumbline::calibrate {

struct ComponentFile {
  std::string path;      // "h100/gemm.csv", below the folder of tables
  std::string text;      // the whole file
  std::size_t read = 0;  // rows of the original tables
};

// Reads the tables, groups their rows by GPU, merges rows of one shape (the median; of tuned tables the least), leaves
// out rows that are wrong, and those that linear interpolation of ln time in ln size gives within 3 %: of attention and
// MLA along the batch, of collectives along the bytes, of experts, low-latency and NVL72 transfers along the tokens, of
// DeepEP's normal kernels along the SMs. GEMMs stay complete. `revision` is the commit of ai-dynamo/aiconfigurator;
// rows of other repositories name theirs. Input errors name file, line and column: columns of no known table, a GPU
// that is no name of letters and digits, a source of no known repository, a number that is not finite and above 0, an
// unknown format, no revision.
model::Result<std::vector<ComponentFile>> import_components(const std::vector<std::string>& paths,
                                                            const std::string& revision);

}  // namespace plumbline::calibrate
