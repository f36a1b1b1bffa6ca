-- What lies in schema $1, of whatever kind: everything in a schema depends on it. Default rights and publications only
-- speak of it.
select count(*) as objects, (array_agg(pg_describe_object(d.classid, d.objid, 0) order by d.objid))[1] as example
from pg_depend d join pg_namespace n on n.oid = d.refobjid
where d.refclassid = 'pg_namespace'::regclass and n.nspname = $1
    and d.classid not in ('pg_default_acl'::regclass, 'pg_publication_namespace'::regclass)
