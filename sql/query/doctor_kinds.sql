-- The latest revision of a kind is the one in force. Reads the tables, so it needs their owner's rights.
select 'error' as severity,
    'kind ' || r.kind || ' has no revision in force that is its latest: new operations would begin under an old rule' as finding,
    'as settle_owner set in_force to true for revision ' || max(r.revision) || ' of it, and to false for all others'
        as what_to_do,
    json_build_object('check', 'kinds', 'kind', r.kind, 'revision', max(r.revision))::text as detail
from settle_data.kind_revision r
group by r.kind
having max(r.revision) filter (where r.in_force) is distinct from max(r.revision)
order by r.kind
