// One row of a table of published training steps, for the tests of its readers.
#pragma once

#include <map>
#include <sstream>
#include <string>

namespace plumbline::tests {

// Returns a row of 32 GPUs, eight-way tensor parallelism, two stages of three chunks and 1.5 s; `changes` replaces
// cells.
inline std::string step_row_csv(const std::map<std::string, std::string>& changes) {
  std::istringstream cells(
      "id=row1;set=ours;variant=first;model=Llama small;model_type=llama;layers=12;hidden=1024;heads=16;kv_heads=8;"
      "ffn=4096;vocabulary=32000;hardware=H800;gpus=32;tensor=8;sequence_parallel=no;context=1;pipeline=2;"
      "virtual_stages=3;expert=1;expert_tensor=1;data=2;zero_stage=0;micro_batch=1;global_batch=8;sequence=2048;"
      "gemm=bf16;recompute=none;schedule=interleaved;step_s=1.5;time=printed;memory_gib=;assumed=;status=read;"
      "source=a table");
  std::string header, row;
  for (std::string cell; std::getline(cells, cell, ';');) {
    const std::string column = cell.substr(0, cell.find('='));
    const auto changed = changes.find(column);
    header += (header.empty() ? "" : ",") + column;
    row += (row.empty() ? "" : ",") + (changed == changes.end() ? cell.substr(column.size() + 1) : changed->second);
  }
  return header + "\n" + row + "\n";
}

}  // namespace plumbline::tests
