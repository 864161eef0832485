package gen

import "testing"

// vectorIDs are ids of the layout 41/10/12 with their epoch and parts, from public sources where one is named.
var vectorIDs = []struct {
	id               int64
	epoch, created   string
	worker, sequence int32
	source           string
}{
	{175928847299117063, "2015-01-01T00:00:00Z", "2016-04-30T11:18:25.796Z", 32, 7, "Discord documentation"},
	{266241948824764416, "2015-01-01T00:00:00Z", "2017-01-04T16:30:27.136Z", 32, 0, "discord.js documentation"},
	{90339695967350784, "2015-01-01T00:00:00Z", "2015-09-07T06:57:41.949Z", 3, 0, "npm discord-snowflake"},
	{105484726235607040, "2015-01-01T00:00:00Z", "2015-10-19T01:58:38.546Z", 11, 0, "twilight-util documentation"},
	{937847820382261308, "2015-01-01T00:00:00Z", "2022-01-31T23:12:24.749Z", 37, 60, "pcordjs/snowflake"},
	{756403198394237027, "2015-01-01T00:00:00Z", "2020-09-18T06:36:15.789Z", 32, 99, "npm snowflake-util"},
	{1541815603606036480, "2010-11-04T01:42:54.657Z", "2022-06-28T16:07:40.105Z", 378, 0, "Wikipedia, Snowflake ID"},
	{1382350606417817604, "2010-11-04T01:42:54.657Z", "2021-04-14T15:10:42.059Z", 327, 4, "techconverter.me (its printed time is wrong)"},
	{1529877576591609861, "2010-11-04T01:42:54.657Z", "2022-05-26T17:30:12.667Z", 321, 5, "techconverter.me"},
	{1116766490855473152, "2010-11-04T01:42:54.657Z", "2019-04-12T18:14:14.595Z", 0, 0, "bwmarrin/snowflake tests"},
	{1427970479175499776, "2010-11-04T01:42:54.657Z", "2021-08-18T12:27:47.301Z", 0, 0, "bwmarrin/snowflake tests"},
	{1428076403798048768, "2010-11-04T01:42:54.657Z", "2021-08-18T19:28:41.699Z", 0, 0, "bwmarrin/snowflake tests"},
	{1593572310593806338, "2010-11-04T01:42:54.657Z", "2022-11-18T11:50:20.644Z", 378, 2, "sapphiredev/utilities#521"},
	{170505378935607296, "2023-01-01T00:00:00Z", "2024-04-15T12:07:30.175Z", 1, 0, "pgEdge hibernate.md"},
	{136169504773242881, "2023-01-01T00:00:00Z", "2024-01-11T18:08:59.845Z", 0, 1, "pgEdge documentation (made with an older layout)"},
	{576968555229220864, "2021-01-01T00:00:00Z", "2025-05-12T03:07:03.124Z", 33, 0, "pg_snowflake_id README"},
	{257530689124044800, "2016-09-25T11:28:08Z", "2018-09-06T03:03:08.976Z", 1, 0, "zheng-ji/goSnowFlake#11"},
	{0, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", 0, 0, "the first id"},
	{1, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", 0, 1, "lowest sequence bit"},
	{4095, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", 0, 4095, "all sequence bits"},
	{4096, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", 1, 0, "lowest worker bit"},
	{4194303, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", 1023, 4095, "all worker and sequence bits"},
	{4194304, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.001Z", 0, 0, "lowest time bit"},
	{9223372036854775807, "2026-01-01T00:00:00Z", "2095-09-07T15:47:35.551Z", 1023, 4095, "the last id"},
	{9223372036854775807, "1970-01-01T00:00:00Z", "2039-09-07T15:47:35.551Z", 1023, 4095, "the last id from 1970"},
	{9223372036854775807, "2010-11-04T01:42:54.657Z", "2080-07-10T17:30:30.208Z", 1023, 4095, "the last id of Twitter's epoch"},
}

func TestParseVectors(t *testing.T) {
	for _, v := range vectorIDs {
		epochUs := unixUs(t, v.epoch)
		want := Parts{CreatedUs: unixUs(t, v.created), Worker: v.worker, Sequence: v.sequence}
		if got, code := Parse(v.id, epochUs); code != Issued || got != want {
			t.Errorf("%d (%s): got %+v code %d, want %+v", v.id, v.source, got, code, want)
		}
		if WorkerOf(v.id) != v.worker || SequenceOf(v.id) != v.sequence {
			t.Errorf("%d (%s): worker %d sequence %d", v.id, v.source, WorkerOf(v.id), SequenceOf(v.id))
		}
		if got, code := Compose(want.CreatedUs, epochUs, v.worker, v.sequence); code != Issued || got != v.id {
			t.Errorf("%s: parts make %d code %d, want %d", v.source, got, code, v.id)
		}
	}
}
