// How each type of setting is read from text, written as text and described. Private to settings.cpp.
// Stateless; may allocate.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/settings.h"

namespace stalloc::runtime {

// Each returns false and leaves `value` alone if `text` is no such value.
bool ParseSetting(std::string_view text, bool* value);
bool ParseSetting(std::string_view text, int* value);
bool ParseSetting(std::string_view text, double* value);
bool ParseSetting(std::string_view text, Growth* value);
bool ParseSetting(std::string_view text, PathPattern* value);
bool ParseSetting(std::string_view text, MemoryLimit* value);
bool ParseSetting(std::string_view text, PlanCache* value);
bool ParseSetting(std::string_view text, ByteSize* value);
bool ParseSetting(std::string_view text, StatsSignal* value);
bool ParseSetting(std::string_view text, LogLevel* value);
bool ParseSetting(std::string_view text, Ipc* value);
bool ParseSetting(std::string_view text, Serve* value);

// As the user would write it; empty: not set.
std::string FormatSetting(bool value);
std::string FormatSetting(int value);
std::string FormatSetting(double value);
std::string FormatSetting(const Growth& value);
std::string FormatSetting(const PathPattern& value);
std::string FormatSetting(const MemoryLimit& value);
std::string FormatSetting(const PlanCache& value);
std::string FormatSetting(const ByteSize& value);
std::string FormatSetting(StatsSignal value);
std::string FormatSetting(LogLevel value);
std::string FormatSetting(Ipc value);
std::string FormatSetting(Serve value);

// What may stand behind the '='. The argument only selects the type.
std::string SettingForm(bool);
std::string SettingForm(const Growth&);
std::string SettingForm(const PathPattern&);
std::string SettingForm(const MemoryLimit&);
std::string SettingForm(const PlanCache&);
std::string SettingForm(const ByteSize&);
std::string SettingForm(StatsSignal);
std::string SettingForm(LogLevel);
std::string SettingForm(Ipc);
std::string SettingForm(Serve);

}  // namespace stalloc::runtime
