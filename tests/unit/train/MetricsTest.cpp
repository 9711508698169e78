// Metrics as JSON, numbers for people and the memory table.
#include "runtime/monitor/Metrics.h"
#include "runtime/core/Error.h"
#include "runtime/monitor/MemoryTable.h"
#include "runtime/monitor/Progress.h"
#include "tests/unit/data/TemporaryFolder.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace msamp::monitor;

TEST(Metrics, OneObjectALine) {
  StepMetrics metrics;
  metrics.step = 7;
  metrics.loss = 2.5;
  metrics.lr = 1e-3;
  metrics.gradNorm = INFINITY;
  metrics.tokens = 4096;
  metrics.tokensPerSecond = 8192;
  metrics.seconds = 0.5;
  metrics.skipped = true;
  metrics.memoryBytes = 10;
  EXPECT_EQ(toJson(metrics), "{\"step\": 7, \"loss\": 2.5, \"lr\": 0.001, \"grad_norm\": null, \"tokens\": 4096, "
                             "\"tokens_per_second\": 8192, \"seconds\": 0.5, \"skipped\": 1, \"memory_bytes\": 10}\n");
  metrics.loss = NAN;
  EXPECT_NE(toJson(metrics).find("\"loss\": null"), std::string::npos);
}

TEST(Metrics, FilesOfEarlierRunsAreKept) {
  TemporaryFolder folder;
  const std::string log = std::filesystem::path(folder.write("x", "")).parent_path() / "log";
  for (uint64_t run = 0; run < 3; ++run) {
    MetricsFile file(log);
    EXPECT_EQ(file.earlier(), run == 0 ? "" : fmt::format("{}/metrics.{}.jsonl", log, run));
    StepMetrics metrics;
    metrics.step = run;
    file.append(metrics);
  }
  for (auto [name, step] :
       {std::pair("metrics.1.jsonl", 0), std::pair("metrics.2.jsonl", 1), std::pair("metrics.jsonl", 2)}) {
    std::string line;
    std::getline(std::ifstream(log + "/" + name), line);
    EXPECT_EQ(line.find(fmt::format("{{\"step\": {},", step)), 0u) << name << ": " << line;
  }
}

TEST(Progress, NumbersForPeople) {
  EXPECT_EQ(humanCount(999), "999");
  EXPECT_EQ(humanCount(12345), "12.3 k");
  EXPECT_EQ(humanCount(123456), "123 k");
  EXPECT_EQ(humanBytes(1023), "1023 B");
  EXPECT_EQ(humanBytes(1536), "1.5 KiB");
  EXPECT_EQ(humanBytes(200ull << 30), "200 GiB");
}

TEST(MemoryTable, HasARowARoleAndAColumnARank) {
  msamp::runtime::RoleBytes ranks[2] = {};
  ranks[0][0] = 1234567;
  ranks[1][0] = 12;
  ranks[1][4] = 3;
  EXPECT_EQ(memoryTable(ranks), "memory (bytes)            rank 0            rank 1\n"
                                "weights                1,234,567                12\n"
                                "scales                         0                 3\n"
                                "total                  1,234,567                15\n");
}
