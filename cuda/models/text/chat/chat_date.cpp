// Purpose:  dates for formats that tell the model what day it is. UTC, without the C library's
//           locale and time zone, which may allocate.
// Owns:     nothing.
// Thread:   one evaluation.
// Lifetime: one evaluation.
#include <cstdio>

#include "aotx/status.h"
#include "chat/chat_value.h"

namespace aotx {

namespace {

constexpr int64_t kDaySeconds = 86400;
constexpr const char* kMonths[] = {"January",   "February", "March",    "April",
                                   "May",       "June",     "July",     "August",
                                   "September", "October",  "November", "December"};
constexpr const char* kDays[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                 "Thursday", "Friday", "Saturday"};

struct Date {
    int64_t year;
    uint32_t month;     // 0..11
    uint32_t day;       // 1..31
    uint32_t year_day;  // 0..365
    uint32_t week_day;  // 0 is Sunday
    uint32_t second_of_day;
};

bool is_leap(int64_t year) noexcept
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

uint32_t month_days(int64_t year, uint32_t month) noexcept
{
    constexpr uint32_t kDaysOf[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return kDaysOf[month] + (month == 1 && is_leap(year) ? 1 : 0);
}

// seconds is from 1970 to 9999.
Date date_of(int64_t seconds) noexcept
{
    Date date = {1970, 0, 1, 0, 0, static_cast<uint32_t>(seconds % kDaySeconds)};
    int64_t days = seconds / kDaySeconds;
    date.week_day = static_cast<uint32_t>((days + 4) % 7);
    while (days >= (is_leap(date.year) ? 366 : 365)) {
        days -= is_leap(date.year) ? 366 : 365;
        date.year++;
    }
    date.year_day = static_cast<uint32_t>(days);
    while (days >= month_days(date.year, date.month)) {
        days -= month_days(date.year, date.month);
        date.month++;
    }
    date.day = static_cast<uint32_t>(days) + 1;
    return date;
}

// One field into out, which holds 16 bytes. 0: not a field known here.
int print_field(const Date& date, char field, char* out) noexcept
{
    const uint32_t hour = date.second_of_day / 3600;
    const uint32_t minute = date.second_of_day / 60 % 60;
    switch (field) {
        case 'Y':
            return std::snprintf(out, 16, "%04d", static_cast<int>(date.year));
        case 'y':
            return std::snprintf(out, 16, "%02d", static_cast<int>(date.year % 100));
        case 'm':
            return std::snprintf(out, 16, "%02u", date.month + 1);
        case 'd':
            return std::snprintf(out, 16, "%02u", date.day);
        case 'e':
            return std::snprintf(out, 16, "%2u", date.day);
        case 'B':
            return std::snprintf(out, 16, "%s", kMonths[date.month]);
        case 'b':
            return std::snprintf(out, 16, "%.3s", kMonths[date.month]);
        case 'A':
            return std::snprintf(out, 16, "%s", kDays[date.week_day]);
        case 'a':
            return std::snprintf(out, 16, "%.3s", kDays[date.week_day]);
        case 'j':
            return std::snprintf(out, 16, "%03u", date.year_day + 1);
        case 'H':
            return std::snprintf(out, 16, "%02u", hour);
        case 'I':
            return std::snprintf(out, 16, "%02u", hour % 12 == 0 ? 12 : hour % 12);
        case 'p':
            return std::snprintf(out, 16, "%s", hour < 12 ? "AM" : "PM");
        case 'M':
            return std::snprintf(out, 16, "%02u", minute);
        case 'S':
            return std::snprintf(out, 16, "%02u", date.second_of_day % 60);
        case '%':
            return std::snprintf(out, 16, "%%");
        default:
            return 0;
    }
}

}  // namespace

bool chat_date(ChatContext* context, int64_t seconds, std::string_view format,
               ChatValue* text) noexcept
{
    constexpr int64_t kLast = INT64_C(253402300799);  // the end of the year 9999
    const Date date = date_of(seconds < 0 ? 0 : seconds > kLast ? kLast : seconds);
    char* out = nullptr;
    uint8_t* marks = nullptr;
    if (!context->new_string(16 * static_cast<uint64_t>(format.size()), &out, &marks, text)) {
        return false;
    }
    uint32_t length = 0;
    for (size_t i = 0; i < format.size(); i++) {
        if (format[i] != '%' || i + 1 == format.size()) {
            out[length++] = format[i];
            continue;
        }
        i++;
        const int printed = print_field(date, format[i], out + length);
        if (printed <= 0) {
            return context->fail(AOTX_ERR_STATE, "strftime_now", "has an unknown field, line");
        }
        length += static_cast<uint32_t>(printed);
    }
    text->count = length;
    text->marks = nullptr;
    return true;
}

}  // namespace aotx
